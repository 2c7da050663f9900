"""A loaded network with the calling conventions of its family: masks, segment ids, and eager attention for maps."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from extractors.foundation.errors import UsageError

if TYPE_CHECKING:
    import torch


class Network:
    """Runs padded batches through a model and gives every layer.

    Batches are padded on the right whatever the tokenizer's padding side, so that the positions that the models count
    from the left (GPT-2, BERT) are those of the unpadded sentence.

    Attributes
    ----------
    model : transformers.PreTrainedModel
        In evaluation mode; the encoder of an encoder-decoder model.
    pad_id : int
        Fills the batch behind a sentence, where the attention mask is 0. RoBERTa and its relatives count positions by
        comparing ids with the configuration's padding id, so that one has precedence.
    takes_types : bool
        Whether segment ids are passed.
    """

    def __init__(self, model: Any, tokenizer: Any, type_ids: tuple[int, ...]) -> None:
        self.model = model
        self.vocabulary = int(model.get_input_embeddings().weight.shape[0])
        config = model.config
        candidates = (getattr(config, "pad_token_id", None), tokenizer.pad_token_id, 0)
        self.pad_id = next(int(pad) for pad in candidates if isinstance(pad, int) and 0 <= pad < self.vocabulary)
        accepted = inspect.signature(model.forward).parameters
        # GPT-2 and its relatives accept segment ids too, but add the *word* vector of that number: a model has
        # segments only if its configuration counts them. XLNet was trained with segments and counts none; recent
        # versions of its tokenizer no longer give them, but the template still says what they are.
        segments = getattr(config, "type_vocab_size", None) or 0
        named = "token_type_ids" in tokenizer.model_input_names and segments > max(type_ids)
        self.takes_types = "token_type_ids" in accepted and (named or config.model_type == "xlnet")
        # Nothing is generated, so nothing has to be remembered.
        self._options = {name: False for name in ("use_cache", "use_mems") if name in accepted}

    def __call__(
        self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor, *, attention: bool = False
    ) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
        """Run a batch.

        Parameters
        ----------
        ids, mask, types : int64 tensors of shape (batch, pieces)
            Piece ids, 1 for pieces and 0 for padding, segment ids.
        attention : bool
            Also give attention maps.

        Returns
        -------
        hidden_states : tuple of tensors of shape (batch, pieces, dim)
            Layers 0..L.
        attentions : tuple of tensors of shape (batch, heads, pieces, pieces)
            Of layers 1..L; empty unless asked for.

        Raises
        ------
        UsageError
            If maps are asked for and the model gives none of that shape.
        """
        import torch

        options: dict[str, Any] = {"token_type_ids": types} if self.takes_types else {}
        if not attention:
            with torch.inference_mode():
                output = self._forward(ids, mask, options)
            return tuple(output.hidden_states), ()
        with torch.inference_mode(), self._eager():
            output = self._forward(ids, mask, {**options, "output_attentions": True})
        maps = tuple(getattr(output, "attentions", None) or ())
        pieces = ids.shape[1]
        if len(maps) != len(output.hidden_states) - 1 or any(
            weights is None or weights.shape[-2:] != (pieces, pieces) for weights in maps
        ):
            raise UsageError(
                f"models of type {self.model.config.model_type} give no attention maps from piece to piece; "
                "ask for hidden states only"
            )
        return tuple(output.hidden_states), maps

    def _forward(self, ids: torch.Tensor, mask: torch.Tensor, options: dict[str, Any]) -> Any:
        return self.model(
            input_ids=ids,
            attention_mask=mask,
            output_hidden_states=True,
            return_dict=True,
            **options,
            **self._options,
        )

    @contextmanager
    def _eager(self) -> Iterator[None]:
        """Fused attention (sdpa, flash) computes no maps: switch to the written-out kernel and back."""
        before = getattr(self.model.config, "_attn_implementation", "eager")
        # Before 4.54 transformers could not switch, but its sdpa classes fell back to eager by themselves.
        switch = getattr(self.model, "set_attn_implementation", None)
        if switch is None or before == "eager":
            yield
            return
        switch("eager")
        try:
            yield
        finally:
            switch(before)
