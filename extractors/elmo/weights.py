"""The HDF5 weight file of an ELMo checkpoint: finding it, checking it against its options, and turning it round.

TensorFlow (bilm-tf) and PyTorch disagree on the order of axes, on which side of a highway gate carries, on the order of
an LSTM's gates, and on where the forget gate's bias of 1 is added; all of that is settled here, once.
"""

from __future__ import annotations

import hashlib
from math import prod
from pathlib import Path

import numpy as np

from extractors.elmo.options import ElmoOptions
from extractors.foundation.errors import ModelError
from extractors.representation import FloatArray

DIRECTIONS = ("forward", "backward")
"""RNN_0 and RNN_1 of the weight file."""


def find_elmo_files(path: Path, options_file: str | Path | None = None) -> tuple[Path, Path]:
    """Find the two files of a checkpoint.

    Parameters
    ----------
    path : Path
        A folder with one ``*options.json`` and one ``*.hdf5`` (of several, the only one called ``*weights.hdf5``), or a
        weight file.
    options_file : str or Path, optional
        The options file; default: the one in the folder, or beside the weight file (``X_options.json`` for
        ``X_weights.hdf5``, else the only ``*options.json`` there).

    Returns
    -------
    tuple of Path
        Options file and weight file; both exist.

    Raises
    ------
    ModelError
        If a file is missing, or there are several and none stands out; the message lists them.
    """
    if path.is_dir():
        found = [file for suffix in ("hdf5", "h5") for file in sorted(path.glob(f"*.{suffix}"))]
        named = [file for file in found if file.stem.endswith("weights")]
        weights = _only(named if len(named) == 1 else found, "weight file (*.hdf5)", path)
    elif path.is_file():
        weights = path
    else:
        raise ModelError(
            f"there is no ELMo at {path}: the path does not exist; give a folder with options.json and one *.hdf5 weight "
            "file, or the path of the weight file"
        )
    if options_file is not None:
        options = Path(options_file).expanduser()
        if not options.is_file():
            raise ModelError(f"there is no options file at {options}; give the options.json of {weights.name}")
        return options, weights
    twin = weights.with_name(f"{weights.stem.removesuffix('weights')}options.json")
    if weights.stem.endswith("weights") and twin.is_file():
        return twin, weights
    folder = weights.parent
    return _only(sorted(folder.glob("*options.json")), "options file (*options.json)", folder), weights


def _only(found: list[Path], what: str, folder: Path) -> Path:
    if not found:
        raise ModelError(f"there is no {what} in {folder}; an ELMo needs its options.json and its *.hdf5 weight file")
    if len(found) > 1:
        raise ModelError(
            f"there are {len(found)} candidates for the {what} in {folder} "
            f"({', '.join(file.name for file in found)}); give the path of the weight file and the options file"
        )
    return found[0]


def checksum_of(options_path: Path, weights_path: Path) -> str:
    """SHA-256 over the bytes of the options file followed by those of the weight file, as 64 hexadecimal digits."""
    digest = hashlib.sha256(options_path.read_bytes())
    with weights_path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def expected_shapes(options: ElmoOptions) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the arrays that a weight file with these options holds."""
    cnn, lstm = options.char_cnn, options.lstm
    total, projection = cnn.total_filters, lstm.projection_dim
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (261, cnn.embedding.dim)}
    for i, (width, number) in enumerate(cnn.filters):
        shapes[f"CNN/W_cnn_{i}"] = (1, width, cnn.embedding.dim, number)
        shapes[f"CNN/b_cnn_{i}"] = (number,)
    for i in range(cnn.n_highway):
        for part in ("transform", "carry"):
            shapes[f"CNN_high_{i}/W_{part}"] = (total, total)
            shapes[f"CNN_high_{i}/b_{part}"] = (total,)
    shapes["CNN_proj/W_proj"] = (total, projection)
    shapes["CNN_proj/b_proj"] = (projection,)
    for direction in range(len(DIRECTIONS)):
        for layer in range(lstm.n_layers):
            cell = _cell(direction, layer)
            shapes[f"{cell}/W_0"] = (2 * projection, 4 * lstm.dim)
            shapes[f"{cell}/B"] = (4 * lstm.dim,)
            shapes[f"{cell}/W_P_0"] = (lstm.dim, projection)
    return shapes


def count_parameters(options: ElmoOptions) -> int:
    """Number of parameters of a model with these options, exactly those that its weight file holds.

    The zero vector of the character mask, which PyTorch versions of ELMo put in front, is a constant and not counted.
    """
    return sum(prod(shape) for shape in expected_shapes(options).values())


def read_weights(path: Path, options: ElmoOptions, dtype: str = "float32") -> dict[str, FloatArray]:
    """Read a weight file, checked against its options before any array is read.

    Parameters
    ----------
    path : Path
        The HDF5 file.
    options : ElmoOptions
        Its options.
    dtype : {"float32", "float64"}
        Precision of the arrays given (official files hold float32).

    Returns
    -------
    dict of str to array
        The arrays by their name in the file, as the file has them.

    Raises
    ------
    ModelError
        If the file is missing, damaged or not HDF5, or an array is missing, of another shape than the options say, not of
        floats, or not finite; names the array.
    """
    import h5py

    shapes = expected_shapes(options)
    try:
        with h5py.File(path, "r") as file:
            for name, shape in shapes.items():
                array = file.get(name)
                if not isinstance(array, h5py.Dataset):
                    raise ModelError(
                        f"{path} has no array {name} (expected shape {shape}); "
                        "it is not the weight file that belongs to the options file"
                    )
                if array.shape != shape or array.dtype.kind != "f":
                    raise ModelError(
                        f"{path}: array {name} has shape {array.shape} and type {array.dtype}, but the options file asks "
                        f"for {shape} and floats; options and weights belong to different models"
                    )
            arrays: dict[str, FloatArray] = {name: np.asarray(file[name][...], dtype=dtype) for name in shapes}
    except OSError as error:
        raise ModelError(
            f"cannot read ELMo's weight file {path}: {error}; it is missing, damaged, cut short, or not HDF5; "
            "fetch it again"
        ) from error
    for name, values in arrays.items():
        if not np.isfinite(values).all():
            raise ModelError(f"{path}: array {name} holds values that are not finite; the file is damaged")
    return arrays


def to_pytorch(arrays: dict[str, FloatArray], options: ElmoOptions) -> dict[str, FloatArray]:
    """Turn the arrays of a weight file into the parameters of `extractors.elmo.network.ElmoNetwork`.

    Parameters
    ----------
    arrays : dict of str to array
        From `read_weights`.
    options : ElmoOptions
        Its options.

    Returns
    -------
    dict of str to array
        By parameter name.
    """
    embedding = arrays["char_embed"]
    # Character ids are shifted by one; row 0 is the mask.
    parameters: dict[str, FloatArray] = {
        "tokens.embedding.weight": np.concatenate([np.zeros_like(embedding[:1]), embedding])
    }
    for i in range(len(options.char_cnn.filters)):
        # (1, width, in, out) -> (out, in, width)
        parameters[f"tokens.convolutions.{i}.weight"] = arrays[f"CNN/W_cnn_{i}"][0].transpose(2, 1, 0)
        parameters[f"tokens.convolutions.{i}.bias"] = arrays[f"CNN/b_cnn_{i}"]
    for i in range(options.char_cnn.n_highway):
        # TensorFlow's gate is the share of the transformed input, allennlp's that of the carried one: 1 - s(x) = s(-x).
        group = f"CNN_high_{i}"
        layer = f"tokens.highway._layers.{i}"
        parameters[f"{layer}.weight"] = np.concatenate(
            [arrays[f"{group}/W_transform"].T, -arrays[f"{group}/W_carry"].T]
        )
        parameters[f"{layer}.bias"] = np.concatenate([arrays[f"{group}/b_transform"], -arrays[f"{group}/b_carry"]])
    parameters["tokens.projection.weight"] = arrays["CNN_proj/W_proj"].T
    parameters["tokens.projection.bias"] = arrays["CNN_proj/b_proj"]
    inputs = options.lstm.projection_dim
    for direction, name in enumerate(DIRECTIONS):
        for layer_index in range(options.lstm.n_layers):
            source = _cell(direction, layer_index)
            target = f"bilm.{name}_cells.{layer_index}"
            weight = _reorder_gates(arrays[f"{source}/W_0"].T)
            bias = _reorder_gates(arrays[f"{source}/B"])
            bias[options.lstm.dim : 2 * options.lstm.dim] += 1  # TensorFlow adds 1 to the forget gate when it runs
            parameters[f"{target}.input_linearity.weight"] = weight[:, :inputs]
            parameters[f"{target}.state_linearity.weight"] = weight[:, inputs:]
            parameters[f"{target}.state_linearity.bias"] = bias
            parameters[f"{target}.state_projection.weight"] = arrays[f"{source}/W_P_0"].T
    # Plain copies are contiguous, and hold nothing of the file's arrays that is not needed.
    return {name: values.copy() for name, values in parameters.items()}


def _cell(direction: int, layer: int) -> str:
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def _reorder_gates(stacked: FloatArray) -> FloatArray:
    """TensorFlow stacks input, candidate, forget, output; PyTorch input, forget, candidate, output. Gives a copy."""
    input_gate, candidate, forget, output = np.split(stacked, 4)
    return np.concatenate([input_gate, forget, candidate, output])
