"""Write an ELMo in its official file format: the exact inverse of `extractors.elmo.weights` (bilm-tf; Peters et al. 2018)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from extractors.elmo.options import ElmoOptions
from extractors.elmo.weights import DIRECTIONS, expected_shapes
from extractors.foundation.files import written_whole

Array = npt.NDArray[Any]

OPTIONS_FILE, WEIGHTS_FILE = "options.json", "weights.hdf5"


def write_elmo(
    folder: Path, options: ElmoOptions, parameters: Mapping[str, Array], dtype: str = "float32"
) -> tuple[Path, Path]:
    """Write ``options.json`` and ``weights.hdf5``.

    Parameters
    ----------
    folder : Path
        Where to; created if need be.
    options : ElmoOptions
        What the network was built from.
    parameters : mapping of str to array
        Parameters of `extractors.elmo.network.ElmoNetwork` by name.
    dtype : {"float32", "float16", "float64"}
        Precision on disk. All readers of the format accept float32; `read_weights` accepts any.

    Returns
    -------
    tuple of Path
        Options file and weight file.

    Raises
    ------
    OutputError
        If the folder cannot be written.
    """
    import h5py

    arrays = from_pytorch(parameters, options)
    weights_path, options_path = folder / WEIGHTS_FILE, folder / OPTIONS_FILE
    with written_whole(weights_path) as temporary, h5py.File(temporary, "w") as file:
        for name, shape in expected_shapes(options).items():
            if arrays[name].shape != shape:
                raise ValueError(f"array {name} has shape {arrays[name].shape}, but the options ask for {shape}")
            file.create_dataset(name, data=arrays[name].astype(dtype))
    content = options.model_dump(mode="json")
    with written_whole(options_path) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return options_path, weights_path


def from_pytorch(parameters: Mapping[str, Array], options: ElmoOptions) -> dict[str, Array]:
    """Turn PyTorch parameters into the arrays of a weight file; `extractors.elmo.weights.to_pytorch` undoes it.

    Parameters
    ----------
    parameters : mapping of str to array
        By parameter name, as `ElmoNetwork.state_dict` has them.
    options : ElmoOptions
        Its options.

    Returns
    -------
    dict of str to array
        By name in the file.
    """
    arrays: dict[str, Array] = {"char_embed": parameters["tokens.embedding.weight"][1:]}
    for i in range(len(options.char_cnn.filters)):
        # (out, in, width) -> (1, width, in, out)
        arrays[f"CNN/W_cnn_{i}"] = parameters[f"tokens.convolutions.{i}.weight"].transpose(2, 1, 0)[None]
        arrays[f"CNN/b_cnn_{i}"] = parameters[f"tokens.convolutions.{i}.bias"]
    for i in range(options.char_cnn.n_highway):
        weight, bias = (parameters[f"tokens.highway._layers.{i}.{part}"] for part in ("weight", "bias"))
        half = len(bias) // 2
        arrays[f"CNN_high_{i}/W_transform"], arrays[f"CNN_high_{i}/b_transform"] = weight[:half].T, bias[:half]
        # allennlp's gate is the share of the carried input, TensorFlow's that of the transformed one.
        arrays[f"CNN_high_{i}/W_carry"], arrays[f"CNN_high_{i}/b_carry"] = -weight[half:].T, -bias[half:]
    arrays["CNN_proj/W_proj"] = parameters["tokens.projection.weight"].T
    arrays["CNN_proj/b_proj"] = parameters["tokens.projection.bias"]
    for direction, name in enumerate(DIRECTIONS):
        for layer in range(options.lstm.n_layers):
            source = f"bilm.{name}_cells.{layer}"
            target = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            weights = [parameters[f"{source}.{part}_linearity.weight"] for part in ("input", "state")]
            both: Array = np.concatenate(weights, axis=1)
            gate_bias: Array = np.array(parameters[f"{source}.state_linearity.bias"])
            gate_bias[options.lstm.dim : 2 * options.lstm.dim] -= 1  # TensorFlow adds 1 to the forget gate when it runs
            arrays[f"{target}/W_0"] = _tensorflow_order(both).T
            arrays[f"{target}/B"] = _tensorflow_order(gate_bias)
            arrays[f"{target}/W_P_0"] = parameters[f"{source}.state_projection.weight"].T
    return arrays


def _tensorflow_order(stacked: Array) -> Array:
    """PyTorch stacks input, forget, candidate, output; TensorFlow input, candidate, forget, output."""
    input_gate, forget, candidate, output = np.split(stacked, 4)
    return np.concatenate([input_gate, candidate, forget, output])
