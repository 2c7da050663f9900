"""How many parameters a model has, exactly, from its configuration alone: no weights are loaded and none are drawn.

The published models of the story are described here by their hyper-parameters, so that their sizes can be counted on a
machine that has none of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extractors.elmo.options import ElmoOptions, read_options
from extractors.foundation.errors import ModelError
from extractors.native import CONFIG_FILE, model_type_of, read_config

if TYPE_CHECKING:
    import torch

    from extractors.base import Extractor

Configuration = Any
"""`ElmoOptions`, `BilstmMlmConfig`, `BigptConfig`, or a ``PretrainedConfig`` of transformers."""


@dataclass(frozen=True)
class PublishedModel:
    """A published model, described by the hyper-parameters of its paper."""

    name: str
    """Its usual name."""
    family: str
    """``elmo``, or a model type of transformers."""
    settings: Mapping[str, Any]
    """What its configuration says; for ELMo the content of ``options.json``."""
    stated: float | None
    """Parameters in millions as its authors state them; None if they state none."""
    source: str
    """Where sizes and statement are from."""


@dataclass(frozen=True)
class ParameterCount:
    """Exact number of parameters of the network that gives a model's vectors; tied ones count once."""

    name: str
    """The model."""
    family: str
    """``elmo``, or the model type of its configuration."""
    total: int
    """All parameters. A head for predicting words is not part of the network, unless the model's own file keeps it in."""
    embeddings: int
    """Those in tables of vectors (words, pieces, positions, segments) and in an output vocabulary. ELMo's character CNN,
    which computes a word's vector, is not a table."""

    @property
    def without_embeddings(self) -> int:
        """The parameters that take part in computing, `total` minus `embeddings`."""
        return self.total - self.embeddings


def _elmo(name: str, cells: int, projection: int, highway: int, stated: float) -> PublishedModel:
    filters = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
    settings = {
        "lstm": {
            "dim": cells,
            "projection_dim": projection,
            "n_layers": 2,
            "cell_clip": 3.0,
            "proj_clip": 3.0,
            "use_skip_connections": True,
        },
        "char_cnn": {"embedding": {"dim": 16}, "filters": filters, "n_highway": highway, "activation": "relu"},
    }
    return PublishedModel(name, "elmo", settings, stated, "Peters et al. 2018 and the official options files")


def _gpt(
    name: str, family: str, layers: int, width: int, heads: int, positions: int, vocabulary: int, stated: float
) -> PublishedModel:
    settings = {
        "n_layer": layers,
        "n_embd": width,
        "n_head": heads,
        "n_positions": positions,
        "vocab_size": vocabulary,
    }
    source = "Radford et al. 2018" if family == "openai-gpt" else "Radford et al. 2019, table 2"
    return PublishedModel(name, family, settings, stated, source)


_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
_BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
_BERT = {"vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2}
_ROBERTA = {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1}
_XLNET = {"vocab_size": 32000}

PUBLISHED: dict[str, PublishedModel] = {
    model.name: model
    for model in (
        _elmo("elmo-small", 1024, 128, 1, 13.6),
        _elmo("elmo-medium", 2048, 256, 1, 28.0),
        _elmo("elmo-original", 4096, 512, 2, 93.6),
        PublishedModel("bert-base-uncased", "bert", {**_BERT, **_BASE}, 110.0, "Devlin et al. 2019, section 3"),
        PublishedModel("bert-large-uncased", "bert", {**_BERT, **_LARGE}, 340.0, "Devlin et al. 2019, section 3"),
        _gpt("openai-gpt", "openai-gpt", 12, 768, 12, 512, 40478, 117.0),
        _gpt("gpt2", "gpt2", 12, 768, 12, 1024, 50257, 117.0),
        _gpt("gpt2-medium", "gpt2", 24, 1024, 16, 1024, 50257, 345.0),
        _gpt("gpt2-large", "gpt2", 36, 1280, 20, 1024, 50257, 762.0),
        _gpt("gpt2-xl", "gpt2", 48, 1600, 25, 1024, 50257, 1542.0),
        PublishedModel("roberta-base", "roberta", {**_ROBERTA, **_BASE}, 125.0, "Liu et al. 2019, released models"),
        PublishedModel("roberta-large", "roberta", {**_ROBERTA, **_LARGE}, 355.0, "Liu et al. 2019, section 5"),
        PublishedModel(
            "xlnet-base-cased",
            "xlnet",
            {**_XLNET, "d_model": 768, "n_layer": 12, "n_head": 12, "d_inner": 3072},
            None,
            "Yang et al. 2019, released models",
        ),
        PublishedModel(
            "xlnet-large-cased",
            "xlnet",
            {**_XLNET, "d_model": 1024, "n_layer": 24, "n_head": 16, "d_inner": 4096},
            None,
            "Yang et al. 2019, appendix A",
        ),
    )
}
"""The models that the story compares, by name."""


def read_configuration(source: str | Path) -> Configuration:
    """Read the configuration of a published model or of files on disk; no weight file is looked at.

    Parameters
    ----------
    source : str or Path
        A name of `PUBLISHED`; an ELMo options file, or a folder that holds one; or a folder with ``config.json``, of
        transformers or of this project's own kinds, or that file. Nothing is fetched.

    Returns
    -------
    ElmoOptions, BilstmMlmConfig, BigptConfig or transformers.PretrainedConfig
        What the network is built from.

    Raises
    ------
    ModelError
        If there is no such model or file, or it does not describe a model.
    """
    published = PUBLISHED.get(str(source))
    if published is not None and published.family == "elmo":
        return ElmoOptions.model_validate(published.settings)
    if published is not None:
        from transformers import AutoConfig

        return AutoConfig.for_model(published.family, **published.settings)
    path = Path(source).expanduser()
    options = [path] if path.is_file() else sorted(path.glob("*options.json")) if path.is_dir() else []
    if path.is_file() and path.name == CONFIG_FILE:
        path, options = path.parent, []
    if not (path / CONFIG_FILE).is_file():
        if len(options) == 1:
            return read_options(options[0])
        raise ModelError(
            f"there is no configuration at {source}: give a folder with config.json or one *options.json, such a file, or "
            f"one of {', '.join(PUBLISHED)}"
        )
    match model_type_of(path):
        case "janus-bilstm-mlm":
            from extractors.bilstm_mlm.config import BilstmMlmConfig

            return read_config(path, BilstmMlmConfig)
        case "janus-bigpt":
            from extractors.bigpt.config import BigptConfig

            return read_config(path, BigptConfig)
    return _read_transformers(path)


def _read_transformers(folder: Path) -> Configuration:
    from transformers import AutoConfig

    path = folder / CONFIG_FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        family = content.pop("model_type")
        return AutoConfig.for_model(family, **content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{path} does not describe a model that this version of transformers knows ({error}); fetch it again, or "
            "update transformers"
        ) from error


def configuration_of(extractor: Extractor) -> Configuration | None:
    """What a loaded model was built from; None if it does not say (a file of stored vectors)."""
    model = getattr(extractor, "model", None)
    for holder, name in ((extractor, "options"), (extractor, "config"), (model, "config")):
        found = getattr(holder, name, None)
        if found is not None:
            return found
    return None


def family_of(configuration: Configuration) -> str:
    """``elmo``, ``bilstm-mlm``, ``bigpt``, or the model type of transformers."""
    if isinstance(configuration, ElmoOptions):
        return "elmo"
    return str(configuration.model_type).removeprefix("janus-")


def count_parameters(source: str | Path | Configuration, *, name: str | None = None) -> ParameterCount:
    """Count the parameters that a configuration asks for.

    The network is built on torch's ``meta`` device, where tensors have shapes and no numbers: this takes no memory and
    well under a second for 1.5 billion parameters. For models of transformers it is the base class (``AutoModel``: BERT
    with its pooler, without a masked-LM head), and the encoder of an encoder-decoder model: what `load_extractor` loads.
    ELMo's parameters are those of its weight file.

    Parameters
    ----------
    source : str, Path or configuration
        As for `read_configuration`, or what that gives.
    name : str, optional
        What to call it; default: the name or the folder's name.

    Returns
    -------
    ParameterCount
        Exact.

    Raises
    ------
    ModelError
        As `read_configuration`, or if transformers cannot build such a model.
    """
    configuration = read_configuration(source) if isinstance(source, str | Path) else source
    family = family_of(configuration)
    label = name or (Path(source).name if isinstance(source, str | Path) else family)
    if isinstance(configuration, ElmoOptions):
        from extractors.elmo.weights import count_parameters as count_elmo

        return ParameterCount(label, family, count_elmo(configuration), 0)
    module = _without_weights(configuration, family)
    return ParameterCount(label, family, *_count(module, family))


def _without_weights(configuration: Configuration, family: str) -> torch.nn.Module:
    """The network of a configuration on the ``meta`` device."""
    import torch

    if family == "bilstm-mlm":
        from extractors.bilstm_mlm.network import build_network as build_bilstm

        return build_bilstm(configuration)
    if family == "bigpt":
        from extractors.bigpt.network import build_network as build_bigpt

        return build_bigpt(configuration)
    from transformers import AutoModel

    try:
        # Drawing on `meta` gives no numbers; the fork keeps the global generator untouched whatever a family does.
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            model: Any = AutoModel.from_config(configuration)
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError, ImportError) as error:
        raise ModelError(
            f"transformers cannot build a model of type {family!r} from its configuration ({error}); it may need another "
            "version, or code that comes with the checkpoint"
        ) from error
    encoder: torch.nn.Module = model.get_encoder() if getattr(configuration, "is_encoder_decoder", False) else model
    return encoder


def _count(module: torch.nn.Module, family: str) -> tuple[int, int]:
    """All parameters, and those in tables of vectors and the output vocabulary; tied ones once."""
    import torch

    # A CNN over characters computes word vectors: its table of some 260 character vectors is part of it.
    tables = {} if family == "bilstm-mlm" else dict(module.named_modules())
    inside = {
        id(parameter): parameter.numel()
        for table in tables.values()
        if isinstance(table, torch.nn.Embedding)
        for parameter in table.parameters()
    }
    if family == "bilstm-mlm":
        inside = {id(parameter): parameter.numel() for parameter in module.get_submodule("softmax").parameters()}
    return sum(parameter.numel() for parameter in module.parameters()), sum(inside.values())
