"""The model card: what was trained on what, for how long, how well, and every choice that could favour one kind of model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_USE = {
    "elmo": "The files are ELMo's official format (`options.json`, `weights.hdf5`) and any reader of that format loads them. "
    "`softmax.safetensors` is the softmax that both directions share, `vocabulary.txt` its words and "
    "`counts.txt` how often each occurs in the training text, one a line.",
    "bilstm-mlm": "`config.json`, `model.safetensors`; `vocabulary.txt` holds the output words and `counts.txt` how often "
    "each occurs in the training text, one a line. A word spelt `[MASK]` is "
    "the masked word.",
    "bigpt": "`config.json`, `model.safetensors`, `tokenizer.json`. The halves of every layer are the left-to-right and the "
    "right-to-left tower.",
    "bert": "A plain Hugging Face folder: `AutoModelForMaskedLM.from_pretrained(folder)` reads it without this project.",
}


def model_card(record: Mapping[str, Any], log: pd.DataFrame) -> str:
    """Write the card from the numbers.

    Parameters
    ----------
    record : mapping
        The content of ``training.json``.
    log : DataFrame
        The training log.

    Returns
    -------
    str
        Markdown.
    """
    recipe, text = record["recipe"], record["text"]
    unit = record["unit"]
    losses = [("unigram distribution", record["unigram_loss"]), ("this model", record["held_out_loss"])]
    if "held_out_masked_loss" in record:
        losses.append(("this model, every predicted unit masked, rate 15 %", record["held_out_masked_loss"]))
    facts = [
        ("kind", record["kind"]),
        ("parameters", f"{record['parameters']:,}"),
        ("parameters without embeddings and output vocabulary", f"{record['parameters_without_embeddings']:,}"),
        ("output vocabulary", f"{record['vocabulary']:,} {unit}s"),
        ("files", ", ".join(f"{name} ({size / 1e6:.2f} MB)" for name, size in record["files"].items())),
        ("words read in training", f"{record['words']:,} ({record['steps']:,} steps)"),
        (
            "seconds of training",
            f"{record['seconds']:,} ({record['words_per_second'] or 0:,} words/s; {record['machine']})",
        ),
        ("seed", record["seed"]),
    ]
    parts = [
        f"# {record['name']}",
        recipe["description"],
        f"{_USE[record['kind']]} Weights are stored in fp16. Read it with `extractors.load_extractor(folder)`.",
        _table(("", ""), facts),
        "## Text",
        f"{text['training_words']:,} words in {text['training_documents']:,} documents for training; {text['held_out_words']:,} words "
        f"in {text['held_out_documents']:,} documents held out, chosen from each file by a rule that has its own seed "
        f"({recipe['text']['held_out_seed']}). {text['units_per_word']:.3f} {unit}s a word. Vocabularies come from the training "
        "documents alone. The text itself is not part of this folder.",
        _table(
            ("file", "source and licence", "SHA-256"),
            [
                (file["name"], recipe["text"].get("sources", {}).get(file["name"], "not stated"), f"`{file['sha256']}`")
                for file in text["files"]
            ],
        ),
        "## Held-out loss",
        f"Nats per {unit}, on all held-out text, before rounding to fp16.",
        _table(("", "nats"), [(name, f"{value:.3f}") for name, value in losses]),
        "## Learning curve",
        _curve(log),
        "## Choices that could favour one kind of model",
        "\n".join(f"- {choice}" for choice in _choices(recipe)),
        "## Command",
        f"```\n{record['command'] or 'studies.train(...)'}\n```\njanus-probe {record['version']}, torch {record['torch']}.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _choices(recipe: Mapping[str, Any]) -> list[str]:
    optimizer, masks = recipe["optimizer"], recipe["masks"]
    choices = [
        f"rows of {recipe['length']} {'words' if recipe['lstm'] else 'pieces'} without padding, {recipe['batch']} a step; half of the "
        "excerpts begin at a sentence's start, half end at a sentence's end; same excerpts in the same order for every kind",
        f"AdamW, learning rate {optimizer['learning_rate']} (a value for each architecture), warm-up over {optimizer['warmup']:.0%} of "
        f"the words, linear decay to zero, weight decay {optimizer['weight_decay']}, gradient norm at most "
        f"{optimizer['gradient_clip']}",
        "no dropout",
    ]
    if recipe["kind"] in ("bilstm-mlm", "bert"):
        rest = 1 - masks["masked"] - masks["random"]
        choices.append(
            f"{masks['rate']:.0%} of the units are predicted; of these {masks['masked']:.0%} masked, {masks['random']:.0%} replaced at "
            f"random, {rest:.0%} left; masks {'drawn anew each time' if masks['dynamic'] else 'fixed for each place of the text'}"
        )
    else:
        choices.append("every unit is predicted, once from its left and once from its right")
    if recipe["lstm"]:
        choices.append(f"cells and projections clipped to +-{recipe['lstm']['clip']}, in training as in use")
        choices.append(
            "words outside the output vocabulary are predicted as one entry, <UNK>, which counts in the loss"
        )
    if recipe["sampled_softmax"]:
        choices.append(
            f"sampled softmax with {recipe['sampled_softmax']} negatives (unigram to the power 0.75) over the first "
            f"{recipe['full_softmax_from']:.0%} of the words, full softmax afterwards"
        )
    if recipe["transformer"]:
        start = recipe["transformer"]["offset_heads"]
        if start is None:
            choices.append("initialisation: the architecture's usual one")
        else:
            choices.append(
                "initialisation: a positional prior. "
                + (
                    f"Positions start as {start['frequencies']} sine/cosine frequencies"
                    if start["position_table"]
                    else "Positions start as usual"
                )
                + (", in dimensions that word vectors avoid; " if start["word_vectors_avoid"] else "; ")
                + f"heads of the first layers start by attending to the offsets {start['layers']} (logit {start['sharpness']} against 0). "
                "Everything is trained afterwards"
            )
        if recipe["transformer"]["causal"]:
            choices.append("attention to the left alone")
    return choices


def _curve(log: pd.DataFrame) -> str:
    columns = ["words", "seconds", "training_loss", "held_out_loss", "gradient_norm"]
    rows = log[log["held_out_loss"].notna()]
    if len(rows) > 12:
        rows = rows.iloc[sorted({round(i * (len(rows) - 1) / 11) for i in range(12)})]
    content = [
        tuple(
            "" if value != value else f"{value:,.0f}" if name in ("words", "seconds") else f"{value:.3f}"
            for name, value in row.items()
        )
        for _, row in rows[columns].astype(float).iterrows()
    ]
    return _table(tuple(name.replace("_", " ") for name in columns), content)


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
