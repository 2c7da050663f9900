"""ELMo as an extractor: layers 0..L of pre-split sentences, forward and backward halves addressable at every layer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from extractors.base import Extractor, Prepared, Sentence, Window, WindowOutput
from extractors.devices import usable_device
from extractors.elmo.options import ElmoOptions, read_options
from extractors.elmo.reading import encode_sentences, encode_types, prepare_words
from extractors.elmo.weights import checksum_of, count_parameters, read_weights, to_pytorch
from extractors.layers import Layers, select_layers
from extractors.representation import FloatArray, ModelInfo, SentenceRepresentation
from extractors.words import as_words

if TYPE_CHECKING:
    from torch import Tensor

    from extractors.elmo.network import BilmState, ElmoNetwork


class ElmoExtractor(Extractor):
    """An ELMo of any official size.

    Layer 0 is the context-free token vector, duplicated to twice its width so that all layers are equally wide; its halves
    are equal and say nothing about direction. Layers 1..L are the biLSTM layers, forward half first (`info.parts`). Each
    sentence is read with ELMo's boundary words ``<S>`` and ``</S>``, which are removed again, and is independent of all
    others: the published code carries the LSTM state from batch to batch, so that the same sentence gets other vectors the
    second time; `extract_stateful` does that on purpose.

    Words are read as characters, so every word is one piece and pooling has no effect. A word of more than 48 UTF-8 bytes
    is cut there, and a word spelt ``<S>`` or ``</S>`` is the boundary word, both as in the published code. A word with
    nothing that UTF-8 can hold (lone surrogates) is read as a word of no characters and listed in `Alignment.replaced`.

    Parameters
    ----------
    network : ElmoNetwork
        The network with its weights, on its device and in its precision.
    options : ElmoOptions
        What it was built from.
    info : ModelInfo
        What to say about it.

    Attributes
    ----------
    info : ModelInfo
        Layers, parts, checksum, ...
    options : ElmoOptions
        The checked options file.
    network : ElmoNetwork
        The torch module.
    """

    def __init__(self, network: ElmoNetwork, options: ElmoOptions, info: ModelInfo) -> None:
        self.network = network.eval().requires_grad_(False)
        self.options = options
        self.info = info

    def token_vectors(self, words: Sequence[str]) -> FloatArray:
        """The context-free vectors of words, from their characters alone; each word type is computed once.

        Parameters
        ----------
        words : sequence of str
            Any words.

        Returns
        -------
        array, shape (words, projection_dim)
            One half of layer 0.

        Raises
        ------
        DataError
            For an empty word, by position.
        """
        import torch

        checked = as_words(words, where="the list of words")
        types = list(dict.fromkeys(checked))
        row = {word: i for i, word in enumerate(types)}
        with torch.inference_mode():
            vectors = encode_types(self.network.tokens, types, self._limit)
        return _to_numpy(vectors)[[row[word] for word in checked]]

    def extract_stateful(
        self, batches: Iterable[Sequence[Sentence]], *, layers: Layers = "all"
    ) -> Iterator[list[SentenceRepresentation]]:
        """Extract vectors as the published code does, carrying the LSTM state from batch to batch.

        Sentence i of a batch starts where sentence i of the batch before it ended (in the backward direction, where that
        one's beginning was reached); the first batch starts from zero. In a batch smaller than an earlier one the other rows
        keep their state. Vectors thus depend on what came before: use it to reproduce published vectors, and `extract` for
        everything else.

        Parameters
        ----------
        batches : iterable of sequences of sentences
            Batches in order; sentences as in `extract`, in any order of length.
        layers : str, int or sequence of int
            Which layers, see `select_layers`.

        Yields
        ------
        list of SentenceRepresentation
            One per sentence of the batch, in the order given.

        Raises
        ------
        UsageError, DataError
            As `extract`.
        """
        chosen = select_layers(layers, self.info.layer_names, model=self.info.name)
        state: BilmState | None = None
        number = 0
        for batch in batches:
            prepared = []
            for sentence in batch:
                number += 1
                where = f"sentence {number}"
                prepared.append(self._prepare(as_words(sentence, where=where), where))
            if not prepared:
                continue
            order = sorted(range(len(prepared)), key=lambda i: -len(prepared[i].alignment.words))
            before = None if state is None else state.select(order)
            hidden, after = self._run([prepared[i].alignment.words for i in order], chosen, before, stateful=True)
            assert after is not None
            back = sorted(range(len(order)), key=order.__getitem__)
            untouched = range(len(order), state.sentences) if state is not None else ()
            updated = after.select(back)
            state = updated.append(state.select(untouched)) if state is not None and untouched else updated
            yield [
                self._stitch(item, [WindowOutput(hidden[position])], chosen)
                for item, position in zip(prepared, back, strict=True)
            ]

    def _prepare(self, words: tuple[str, ...], where: str) -> Prepared:
        return prepare_words(words, self._limit)

    @property
    def _limit(self) -> int:
        return self.options.char_cnn.max_characters_per_token

    def _forward(
        self, windows: Sequence[Window], *, layers: tuple[int, ...], pooling: str, attention: bool
    ) -> list[WindowOutput]:
        hidden, _ = self._run([window.payload for window in windows], layers)
        return [WindowOutput(vectors) for vectors in hidden]

    def _run(
        self,
        sentences: Sequence[tuple[str, ...]],
        layers: tuple[int, ...],
        state: BilmState | None = None,
        *,
        stateful: bool = False,
    ) -> tuple[list[FloatArray], BilmState | None]:
        """Run sentences sorted by falling length; gives (layers, words, dim) for each, and the state afterwards.

        Layers above the highest one asked for are not run, unless the state is wanted.
        """
        import torch

        with torch.inference_mode():
            tokens, lengths = encode_sentences(self.network.tokens, sentences, self._limit)
            depth = None if stateful else max(layers)
            contextual, after = self.network.bilm(tokens, lengths, depth=depth, state=state)
            outputs = [torch.cat([tokens, tokens], dim=-1), *contextual]
            hidden = _to_numpy(torch.stack([outputs[layer] for layer in layers]))
        # Copies, so that a sentence kept by the caller does not keep its whole padded batch.
        return [hidden[:, i, 1 : length - 1].copy() for i, length in enumerate(lengths)], after


def load_elmo(
    options: Path,
    weights: Path,
    *,
    name: str,
    device: str = "cpu",
    dtype: str = "float32",
    untrained: bool = False,
    seed: int = 0,
) -> ElmoExtractor:
    """Load an ELMo from its official files.

    Parameters
    ----------
    options, weights : Path
        ``options.json`` and ``weights.hdf5``; see `find_elmo_files`.
    name : str
        Short name for tables and figures.
    device : str
        A torch device.
    dtype : {"float32", "float64", "float16", "bfloat16"}
        Precision of the network. Vectors come as float64 for float64 and as float32 otherwise.
    untrained : bool
        Draw the weights anew from `seed` (see `extractors.elmo.network.draw_weights`); the weight file is not read.
    seed : int
        Seed of the untrained weights. The global random state is never touched.

    Returns
    -------
    ElmoExtractor
        Ready to `extract`.

    Raises
    ------
    ModelError
        If a file is missing, damaged, or options and weights do not belong together; names file and field or array.
    UsageError
        If the device or the precision cannot be had here.
    """
    checked = read_options(options)
    # The file is checked before torch is imported or anything is built.
    file_dtype = "float64" if dtype == "float64" else "float32"
    arrays = None if untrained else to_pytorch(read_weights(weights, checked, file_dtype), checked)

    import torch

    from extractors.elmo.network import build_network, draw_weights

    place = usable_device(device, dtype)
    network = build_network(checked)
    if arrays is None:
        network = draw_weights(network, seed)
    else:
        network.load_state_dict({key: torch.from_numpy(array) for key, array in arrays.items()}, assign=True)
    width = checked.lstm.projection_dim
    info = ModelInfo(
        name=name,
        source=str(weights),
        family="elmo",
        weights="untrained" if untrained else "trained",
        layer_names=("token", *(f"biLSTM {layer}" for layer in range(1, checked.lstm.n_layers + 1))),
        hidden_size=2 * width,
        directionality="concatenated",
        parts=MappingProxyType({"whole": slice(None), "forward": slice(0, width), "backward": slice(width, 2 * width)}),
        parameters=count_parameters(checked),
        dtype=dtype,
        checksum="" if untrained else checksum_of(options, weights),
        seed=seed if untrained else None,
    )
    return ElmoExtractor(network.to(device=place, dtype=getattr(torch, dtype)), checked, info)


def _to_numpy(tensor: Tensor) -> FloatArray:
    """NumPy has no bfloat16, and half precision is of no use to what follows: both come as float32."""
    import torch

    wanted = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    array: FloatArray = tensor.to(device="cpu", dtype=wanted).numpy()
    return array
