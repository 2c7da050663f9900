"""ELMo (Peters et al. 2018) from its official files, exact on today's PyTorch."""

from extractors.elmo.extractor import ElmoExtractor, load_elmo
from extractors.elmo.options import ElmoOptions, read_options
from extractors.elmo.weights import find_elmo_files

__all__ = ["ElmoExtractor", "ElmoOptions", "find_elmo_files", "load_elmo", "read_options"]
