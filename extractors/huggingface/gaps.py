"""Hugging Face language models with their own heads: masked ones at the mask, left-to-right ones at words of one piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from extractors.foundation.errors import ModelError
from extractors.foundation.randomness import seed_for
from extractors.gaps import Array, Gap, GapFiller, WordEnds, log_share, log_softmax_at, no_head
from extractors.huggingface.extractor import HuggingFaceExtractor
from extractors.huggingface.gap_pieces import PieceVocabulary
from extractors.huggingface.network import Network

if TYPE_CHECKING:
    from torch import Tensor

    from extractors.representation import ModelInfo

_MASKED, _CAUSAL = "AutoModelForMaskedLM", "AutoModelForCausalLM"


def huggingface_gap_filler(
    extractor: HuggingFaceExtractor, *, exact_ends: int | None = 16
) -> MaskedGapFiller | CausalGapFiller:
    """Load the head that belongs to the extractor's network; the network itself is shared.

    The head of an untrained copy is drawn from the copy's seed by the family's own initialisation; where output and input
    vectors are tied, they are tied to the copy's.

    Raises
    ------
    UsageError
        If the kind of model has no such head, or the checkpoint was saved without it.
    """
    kind = _kind(extractor)
    model = _load_with_head(extractor, kind)
    if kind == _MASKED:
        return MaskedGapFiller(extractor, model)
    return CausalGapFiller(extractor, model, exact_ends=exact_ends)


def _kind(extractor: HuggingFaceExtractor) -> str:
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    info, config = extractor.info, extractor.model.config
    if getattr(config, "is_encoder_decoder", False) or extractor.model.config.model_type == "xlnet":
        raise no_head(info, "models of its type predict in another way")
    saved_as = getattr(config, "architectures", None) or ()
    # A causal mask alone does not say what was trained: BERT with one may still be a masked language model.
    masked = any(name.endswith(("ForMaskedLM", "ForPreTraining")) for name in saved_as)
    if config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and (masked or info.directionality == "bidirectional"):
        if extractor.tokenizer.mask_token_id is None:
            raise no_head(info, "its tokenizer has no mask token")
        return _MASKED
    if config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and info.directionality == "left-to-right":
        return _CAUSAL
    raise no_head(info, "models of its type have no head for it")


def _load_with_head(extractor: HuggingFaceExtractor, kind: str) -> Any:
    """The model with its head, on the extractor's device and in its precision."""
    import torch
    import transformers

    from extractors.huggingface.loading import _cast, _quiet

    info, base = extractor.info, extractor.model
    factory = getattr(transformers, kind)
    dtype = getattr(torch, info.dtype)
    missing: Sequence[str] = ()
    with _quiet(), torch.random.fork_rng(devices=[]):
        try:
            if info.weights == "untrained":
                torch.default_generator.manual_seed(seed_for(info.seed, "head"))
                model = factory.from_config(base.config, dtype=torch.float32)
            else:
                model, report = factory.from_pretrained(
                    base.config.name_or_path,
                    local_files_only=True,
                    use_safetensors=True,
                    output_loading_info=True,
                    dtype=dtype,
                )
                missing = report["missing_keys"]
        except Exception as error:  # a checkpoint made by strangers can fail in any way
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise ModelError(f"cannot load {info.source} with its head ({reason}); fetch the model again") from error
    needed = sorted(key for key in missing if not any(part in key for part in ("pooler", "position_ids")))
    if needed:
        raise no_head(
            info, f"its weight file has no head ({', '.join(needed[:3])}{', ...' if len(needed) > 3 else ''})"
        )
    _cast(model, dtype)
    model = model.to(base.device).eval().requires_grad_(False)
    _share_network(model, base, info)
    return model


def _share_network(model: Any, base: Any, info: ModelInfo) -> None:
    """Put the extractor's network under the head: one set of weights, and for an untrained copy the right one."""
    prefix = model.base_model_prefix
    usual = type(getattr(model, prefix, None)) is type(base) and model.get_output_embeddings() is not None
    if not usual:
        raise no_head(info, f"{type(model).__name__} is not built in the usual way")
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    setattr(model, prefix, base)
    if tied:
        model.get_output_embeddings().weight = base.get_input_embeddings().weight


class _Head(GapFiller):
    """What both kinds share: the vocabulary, and scores at chosen places only."""

    def __init__(self, extractor: HuggingFaceExtractor, model: Any) -> None:
        self.info = extractor.info
        self._extractor = extractor
        self._words = extractor._words
        self._network = Network(model, extractor.tokenizer, self._words.type_ids)
        self._pieces = PieceVocabulary(extractor.tokenizer, self._words, model.get_output_embeddings().weight.shape[0])

    def words(self) -> tuple[str, ...]:
        """See `GapFiller.words`."""
        return self._pieces.words

    def entries(self, words: Sequence[str]) -> list[int | None]:
        """See `GapFiller.entries`."""
        return self._pieces.numbers(words)

    def refusal(self, gap: Gap) -> str | None:
        """See `GapFiller.refusal`: the sentence must fit into one window, and the gap must not be where words are spelt otherwise."""
        if gap.position == 0 and self._pieces.spells_first_otherwise:
            return f"the tokenizer of {self.info.name} spells the first word of a text otherwise than the candidates"
        count = sum(map(len, self._words(gap.words, "the sentence").ids))
        count += len(self._words.prefix) + len(self._words.suffix)
        limit = self.info.max_pieces
        if limit is not None and count > limit:
            return f"the sentence has {count} pieces, but {self.info.name} reads at most {limit}"
        return None

    def _scores(self, lines: Sequence[Sequence[int]], rows: Sequence[int], places: Sequence[int]) -> Tensor:
        """Scores (places, vocabulary) at places of padded sentences in pieces, special tokens included."""
        import torch

        ids = np.full((len(lines), max(map(len, lines))), self._network.pad_id)
        mask, types = np.zeros_like(ids), np.zeros_like(ids)
        for row, line in enumerate(lines):
            ids[row, : len(line)] = line
            mask[row, : len(line)] = 1
            types[row, : len(line)] = self._extractor._segments(len(line))
        model = self._network.model
        inputs = [torch.from_numpy(array).to(model.device) for array in (ids, mask, types)]
        options = {"token_type_ids": inputs[2]} if self._network.takes_types else {}
        chosen = (torch.tensor(rows, device=model.device), torch.tensor(places, device=model.device))
        with torch.inference_mode(), _only_at(model.get_output_embeddings(), chosen):
            logits = self._network._forward(inputs[0], inputs[1], options).logits
        # A family that does not call its output layer as a module gives the scores of all places.
        scores: Tensor = logits[0] if logits.shape[:2] == (1, len(rows)) else logits[chosen]
        return scores


@contextmanager
def _only_at(layer: Any, chosen: tuple[Tensor, Tensor]) -> Iterator[None]:
    """The output layer costs more than a small network: run it at the chosen places alone."""

    def gather(_: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return (arguments[0][chosen][None], *arguments[1:])

    handle = layer.register_forward_pre_hook(gather)
    try:
        yield
    finally:
        handle.remove()


class MaskedGapFiller(_Head):
    """P(w | L, R) of a masked language model at one mask token between the pieces of L and R.

    The model sees that the gap has one piece, and where the word ends: by what comes after the mask.
    """

    sides = ("joint",)

    def _score(self, gaps: Sequence[Gap], entries: npt.NDArray[np.int64]) -> dict[str, Array]:
        mask = self._extractor.tokenizer.mask_token_id
        lines, places = [], []
        for gap in gaps:
            pieces = self._words(gap.words, "the sentence").ids
            before = [*self._words.prefix, *(piece for word in pieces[: gap.position] for piece in word)]
            after = [piece for word in pieces[gap.position + 1 :] for piece in word]
            lines.append([*before, mask, *after, *self._words.suffix])
            places.append(len(before))
        return {"joint": log_softmax_at(self._scores(lines, range(len(gaps)), places), entries)}


class CausalGapFiller(_Head):
    """P(w | L) of a left-to-right language model, behind its tokenizer's start token if it has one.

    A word's probability is that of its piece, and that the next piece does not carry it on (see
    `extractors.huggingface.gap_pieces.PieceVocabulary.continues`).
    """

    sides = ("forward",)

    def __init__(self, extractor: HuggingFaceExtractor, model: Any, *, exact_ends: int | None = 16) -> None:
        reader = extractor.with_sentence_start()
        super().__init__(reader, model)
        self._word_ends = WordEnds(exact_ends)
        self.note = self._word_ends.note
        # Recent versions of transformers call it otherwise.
        self._cache = "cache" if "cache" in signature(model.forward).parameters else "past_key_values"

    def refusal(self, gap: Gap) -> str | None:
        """See `GapFiller.refusal`; without a start token nothing predicts the first word."""
        if gap.position == 0 and not self._words.prefix:
            return f"{self.info.name} reads nothing before the first word, and so does not predict it"
        return super().refusal(gap)

    def _score(self, gaps: Sequence[Gap], entries: npt.NDArray[np.int64]) -> dict[str, Array]:
        lines: dict[tuple[str, ...], list[int]] = {}
        starts: dict[tuple[str, ...], list[int]] = {}
        for gap in gaps:
            if gap.words not in lines:
                pieces = self._words(gap.words, "the sentence").ids
                flat = [piece for word in pieces for piece in word]
                lines[gap.words] = [*self._words.prefix, *flat, *self._words.suffix]
                starts[gap.words] = (len(self._words.prefix) + np.cumsum([0, *map(len, pieces)])).tolist()
        row = {words: i for i, words in enumerate(lines)}
        read = [starts[gap.words][gap.position] for gap in gaps]
        scores = self._scores(list(lines.values()), [row[gap.words] for gap in gaps], [n - 1 for n in read])
        contexts = [lines[gap.words][:length] for gap, length in zip(gaps, read, strict=True)]
        values = log_softmax_at(scores, entries)

        def ends(pieces: npt.NDArray[np.int64]) -> Array:
            return np.stack([self._end(context, row) for context, row in zip(contexts, pieces, strict=True)])

        def at_start(pieces: npt.NDArray[np.int64]) -> Array:
            return self._end(self._words.prefix, pieces[0])[None]

        standing = self.entries([gap.answer for gap in gaps])
        values = self._word_ends.add(values, entries, standing, ends, at_start)
        self.note = self._word_ends.note
        return {"forward": values}

    def _end(self, context: Sequence[int], pieces: npt.NDArray[np.int64]) -> Array:
        """Log-probability that no piece carries on each of `pieces`, alternatives behind the same context."""
        import torch

        model = self._network.model
        following = torch.from_numpy(pieces).to(model.device)[:, None]
        with torch.inference_mode():
            cache: Any = None
            if context:
                output = model(torch.tensor([list(context)], device=model.device), use_cache=True)
                cache = output.get(self._cache)
            if hasattr(cache, "batch_repeat_interleave"):
                cache.batch_repeat_interleave(len(pieces))
                logits = model(following, **{self._cache: cache}).logits
            else:  # families without such a cache read the context again for every alternative
                whole = torch.tensor([list(context)] * len(pieces), dtype=torch.int64, device=model.device)
                logits = model(torch.cat([whole, following], dim=1)).logits
        return log_share(logits[:, -1], ~self._pieces.continues)
