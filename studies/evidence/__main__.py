"""``python -m studies.evidence``: train variants, evaluate them, and put the tables together."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from extractors.foundation.errors import JanusError, UsageError
from studies.console import reporter
from studies.evidence.variants import SPEED, VARIANTS, select_variants


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options = _parser().parse_args(given)
        names = select_variants(options.only)
        if options.list:
            _list(names)
            return 0
        if options.out is None or (options.text is None and not options.tables):
            raise UsageError("--out DIR is needed, and --text FILE... for training; see --help")
        out = Path(options.out).expanduser()
        command = _command(given)
        if options.text is not None:
            from studies.evidence.runner import WORDS, run_evidence
            from studies.training.source import TrainingText

            words = WORDS if options.words is None else options.words
            if words < 1:
                raise UsageError(f"--words {words} is no budget; give at least 1")
            progress = reporter(quiet=options.quiet)
            text = TrainingText(options.text, progress=progress)
            run_evidence(names, text, out, words=words, command=command, progress=progress)
        if options.tables:
            _tables(out, options.bundled)
    except JanusError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; what is finished is kept: give the same command again to resume\n")
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m studies.evidence",
        description="Train variants of the bundled recipes at one small budget, evaluate all in one way, and put the tables "
        "together. Finished variants are kept and skipped. Several processes can share --out, each with its own --only.",
    )
    parser.add_argument(
        "--text",
        nargs="+",
        action="extend",
        metavar="FILE",
        help="training text, plain or .gz: a paragraph a line, a blank line between documents",
    )
    parser.add_argument("--out", metavar="DIR", help="folder for models, evaluations and tables")
    parser.add_argument("--words", type=int, metavar="N", help="word budget of each variant (default: 400000)")
    parser.add_argument(
        "--only",
        nargs="+",
        action="extend",
        metavar="NAME",
        help="these variants alone; patterns such as 'bert-rate-*'",
    )
    parser.add_argument("--list", action="store_true", help="list the variants and end")
    parser.add_argument("--tables", action="store_true", help="put together the tables of all that is finished")
    parser.add_argument(
        "--bundled", metavar="DIR", help="folder of the bundled models, whose learning curves go into the tables"
    )
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress")
    return parser


def _list(names: Sequence[str]) -> None:
    for name in names:
        if name == SPEED:
            sys.stdout.write(f"{name:20}  training words per second over row length, all four kinds\n")
            continue
        variant = VARIANTS[name]
        sys.stdout.write(f"{name:20}  {variant.recipe:15}  {', '.join(variant.claims):12}  {variant.question}\n")


def _command(given: Sequence[str]) -> str:
    """The command line with the names of files and folders alone: where they lay is of no use elsewhere."""
    shown = [Path(word).name if "/" in word else word for word in given]
    return shlex.join(["python", "-m", "studies.evidence", *shown])


def _tables(out: Path, bundled: str | None) -> None:
    from studies.evidence.runner import finished_variants
    from studies.evidence.tables import write_tables

    commands = list(dict.fromkeys(record["command"] for record in finished_variants(out).values() if record["command"]))
    folder = None if bundled is None else Path(bundled).expanduser()
    for file in write_tables(out, bundled=folder, commands=commands):
        sys.stdout.write(f"{file} ({file.stat().st_size / 1000:.0f} kB)\n")


if __name__ == "__main__":
    sys.exit(main())
