"""What to run, on what, where: the plan of a run, its execution and resumption, and the ``probe`` command."""

# `run` is a module and a function of the same name: importing the function here, at once, makes the name on the package
# the function, whoever imports the module later.
from studies.config import SAMPLE_CORPUS, RunConfig
from studies.run import RunResult, run

__all__ = ["SAMPLE_CORPUS", "RunConfig", "RunResult", "run"]
