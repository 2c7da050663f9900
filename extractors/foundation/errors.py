"""The errors a user can cause, and the exit code each one gives on the command line.

Every message says what was given, what is valid, and what to do next.
"""


class JanusError(Exception):
    """Base of every error that is the fault of an input, not of the program."""

    exit_code = 2


class UsageError(JanusError):
    """An option or argument that cannot be right: unknown name, impossible combination, layer out of range."""

    exit_code = 2


class DataError(JanusError):
    """A corpus or label file that is missing, malformed, empty, or does not hold what is asked of it."""

    exit_code = 3


class AlignmentError(DataError):
    """Words and the model's pieces cannot be brought together; names sentence and word."""


class ModelError(JanusError):
    """A checkpoint that is unknown, missing, incomplete, or not of the kind it claims to be."""

    exit_code = 4


class DownloadError(ModelError):
    """A download that failed, was cut short, or does not match its checksum."""


class OutputError(JanusError):
    """A folder or file that cannot be written: not empty, no permission, no space."""

    exit_code = 5


class StoreError(JanusError):
    """Stored representations that are damaged, or belong to another model, text, pooling or layer set."""

    exit_code = 6
