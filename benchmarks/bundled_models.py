"""What the bundled models are worth: tags beside the word type, gaps on held-out text, interaction in float64.

Run from the repository root::

    python benchmarks/bundled_models.py upos  [--data ../shared/data] [--model NAME ...]
    python benchmarks/bundled_models.py cloze [--data ../shared/data] [--model NAME ...]
    python benchmarks/bundled_models.py shares [--model NAME ...]
    python benchmarks/bundled_models.py fp16  --checkpoint RECIPE=FILE ... [--data ../shared/data]

``upos``: a linear probe for UPOS learns from 2,000 sentences of UD_English-EWT's training part (500 others choose the penalty) and
is scored on its development part, beside the word type. ``cloze``: gaps in the text that was held out of the models' training,
mixes tuned on one half of its documents and scored on the other. ``shares``: direction shares of trained models and untrained
copies on the bundled contexts, all in float64. ``fp16``: the probe of ``upos`` on the weights of training checkpoints (the
``checkpoint.safetensors`` of an unfinished folder, copied before the run ends), stored in fp16 and in fp32. Each prints one line per number. Exits with 77 (skipped) where the data are absent.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extractors import Extractor, load_extractor
from extractors.registry import KNOWN_MODELS, bundled_word_counts

if TYPE_CHECKING:
    import pandas as pd

ROOT = Path(__file__).resolve().parent.parent
SKIPPED = 77
MODELS = tuple(name for name, model in KNOWN_MODELS.items() if model.kind == "bundled")
TEXTS = ("en_books_litbank.txt.gz", "en_openstax.txt.gz", "en_us_speeches.txt.gz")


def upos(names: list[str], data: Path) -> None:
    """Accuracy at every layer, and of the word type."""
    rows = probed(names, data)
    word_type = rows[rows["probe"] == "word_type"].iloc[0]
    print(f"word type {word_type['value']:.4f} [{word_type['low']:.4f}, {word_type['high']:.4f}]")
    for _, row in rows[rows["layer"].notna() & (rows["part"] == "whole")].iterrows():
        print(f"{row['model']} layer {row['layer']} {row['value']:.4f} [{row['low']:.4f}, {row['high']:.4f}]")


def probed(models: list[str], data: Path) -> pd.DataFrame:
    """Rows with the accuracy of a UPOS probe, learnt from 2,000 sentences of EWT and scored on its development part."""
    import gzip

    import studies

    folder = data / "ud" / "en_ewt"
    with gzip.open(folder / "en_ewt-ud-train.conllu.gz", "rt", encoding="utf-8") as file:
        sentences = file.read().strip().split("\n\n")
    with tempfile.TemporaryDirectory() as temporary:
        parts = {"train": sentences[:2000], "dev": sentences[2000:2500]}
        files = []
        for split, chosen in parts.items():
            path = Path(temporary) / f"{split}.conllu"
            path.write_text("\n\n".join(chosen) + "\n\n", encoding="utf-8")
            files.append(f"{split}={path}")
        files.append(f"test={folder / 'en_ewt-ud-dev.conllu'}")
        result = studies.run(
            model=models, data=files, task=["upos"], untrained=False, control=False, out=Path(temporary) / "run"
        )
    return result.results.query("measure == 'accuracy'")


def half_precision(checkpoints: list[str], data: Path) -> None:
    """Largest difference that storing weights in fp16 makes to the probe, over layers."""
    from safetensors import safe_open

    from studies.training.learner import learner_class
    from studies.training.recipe import read_recipe
    from studies.training.source import TrainingText

    text = TrainingText([data / "text" / name for name in TEXTS])
    with tempfile.TemporaryDirectory() as temporary:
        for given in checkpoints:
            name, _, file = given.partition("=")
            recipe = read_recipe(name)
            learner = learner_class(recipe)(text.material(recipe))
            with safe_open(file, framework="pt") as weights:
                for key, parameter in learner.network.named_parameters():
                    parameter.data.copy_(weights.get_tensor(f"weight/{key}"))
            models = []
            for precision in ("float16", "float32"):
                folder = Path(temporary) / f"{recipe.name}-{precision}"
                folder.mkdir()
                learner.export(folder, precision=precision)
                models.append(str(folder))
            rows = probed(models, data)
            rows = rows[rows["layer"].notna()]
            table = rows.pivot(index=["layer", "part"], columns="model", values="value")
            for (layer, part), row in table.iterrows():
                half, full = (row[Path(model).name] for model in models)
                print(
                    f"{recipe.name} layer {layer} {part} fp16 {half:.4f} fp32 {full:.4f} difference {half - full:+.4f}"
                )


def cloze(names: list[str], data: Path) -> None:
    """Nats per gap on held-out text, from each of the things a model can predict from."""
    from analyses import cloze as measure
    from extractors.gaps import gap_filler
    from studies.training.recipe import read_recipe
    from studies.training.source import TrainingText

    held_out = TrainingText([data / "text" / name for name in TEXTS]).material(read_recipe("elmo-mini")).text.held_out
    sentences, documents = [], []
    for number, (start, stop) in enumerate(zip(held_out.documents[:-1], held_out.documents[1:], strict=True)):
        words: list[str] = []
        for word in held_out.words[start:stop]:
            words.append(held_out.types[word])
            if words[-1] in {".", "?", "!"}:
                sentences.append(words)
                documents.append(str(number))
                words = []
    keep = [place for place, words in enumerate(sentences) if 6 <= len(words) <= 40]
    found = measure(
        [gap_filler(load_extractor(name)) for name in names],
        [sentences[place] for place in keep],
        documents=[documents[place] for place in keep],
        candidates=5000,
        counts=bundled_word_counts(),
        targets=2000,
        tuning_targets=1000,
    )
    for note in found.notes:
        print(f"# {note}")
    frame = found.to_frame()
    for _, row in frame[frame["measure"].isin(["cloze_nats", "cloze_top1", "cloze_nats_difference"])].iterrows():
        against = "" if row.isna()["reference"] else f" minus {row['reference']}"
        print(
            f"{row['measure']} {row['model']}{against} {row['condition']} {row['value']:.3f} "
            f"[{row['low']:.3f}, {row['high']:.3f}] n={row['n']}"
        )


def shares(names: list[str]) -> None:
    """Direction shares by layer, and the comparison of the models."""
    from analyses import compare_shares, direction_shares
    from probes.corpora import read_corpora
    from studies.bundled_contexts import bundled_contexts
    from studies.config import SAMPLE_CORPUS

    sentences = [sentence.words for sentence in read_corpora([SAMPLE_CORPUS])[0].sentences]

    def load(name: str, **options: Any) -> Extractor:
        return load_extractor(name, dtype="float64", **options)

    contexts = bundled_contexts([load(name) for name in names], grid=8)
    results = []
    for name in names:
        for untrained in (False, True):
            found = direction_shares(load(name, untrained=untrained), sentences, contexts=contexts)
            results.append(found)
            rows = found.to_frame()
            rows = rows[rows["layer"].fillna(0) > 0]
            for _, row in rows[rows["task"].isna()].iterrows():
                print(
                    f"{name} {row['weights']} layer {row['layer']} {row['part']} {row['measure']} ({row['condition']}) "
                    f"{row['value']:.3g} [{row['low']:.3g}, {row['high']:.3g}]"
                )
    for _, row in compare_shares(results).to_frame().iterrows():
        print(" ".join(str(value) for value in row.dropna()))


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("upos", "cloze", "shares", "fp16"))
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--model", nargs="+", default=list(MODELS))
    parser.add_argument("--checkpoint", nargs="+", default=[], help="RECIPE=FILE, for fp16")
    options = parser.parse_args()
    if options.what == "shares":
        shares(options.model)
        return 0
    if not options.data.is_dir():
        print(f"skipped: no data at {options.data}", file=sys.stderr)
        return SKIPPED
    if options.what == "fp16":
        half_precision(options.checkpoint, options.data)
        return 0
    {"upos": upos, "cloze": cloze}[options.what](options.model, options.data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
