"""A linear probe for labels of your own, layer by layer, with its control task and baselines (Hewitt & Liang 2019).

The label here is what comes next: the part of speech of the following word. A word by itself says something about it
(see the baseline word_type); layers that have read the right side say more. Offline on the packaged 6-layer BERT.
"""

import sys

from extractors import load_extractor
from probes import CorpusSentence, build_task, evaluate_layers, read_corpora, split_corpora, task_features
from studies import SAMPLE_CORPUS

COARSE = {"NOUN": "noun", "PROPN": "noun", "PRON": "noun", "VERB": "verb", "AUX": "verb", "PUNCT": "punctuation"}


def labelled(sentence: CorpusSentence) -> CorpusSentence:
    """Put a column of labels beside the words: one label per word, None for a word that is no item."""
    following = [COARSE.get(tag or "", "other") for tag in sentence.columns["upos"][1:]]
    return CorpusSentence(words=sentence.words, columns={"next": (*following, None)}, document=sentence.document)


extractor = load_extractor(sys.argv[1] if len(sys.argv) > 1 else "minilm-l6")

# Splits keep documents whole. Sentences of your own need no file: CorpusSentence(words=(...), columns={...}).
corpora = split_corpora(read_corpora([SAMPLE_CORPUS]), seed=0)
splits = {split: [labelled(sentence) for sentence in sentences] for split, sentences in corpora.items()}
task = build_task("next", splits)
print(task.description)

result = evaluate_layers(
    task,
    task_features(task, splits, extractor, pooling="mean"),
    model=extractor.info,
    layers=extractor.info.layers,
    pooling="mean",
    data="sample",
)

table = result.to_frame()
accuracy = table[table["measure"] == "accuracy"]
print("\nAccuracy on test with its 95 % interval; selectivity is accuracy minus that of the control task")
for row in accuracy[accuracy["layer"].isna()].itertuples():
    print(f"{row.probe:<14}{row.value:.3f} [{row.low:.3f}, {row.high:.3f}]")
selectivity = table[table["measure"] == "selectivity"].set_index("layer")["value"]
for row in accuracy[accuracy["layer"].notna() & accuracy["condition"].isna()].itertuples():
    selective = f"selectivity {selectivity[row.layer]:+.3f}" if row.layer in selectivity.index else ""
    print(f"{row.layer_name:<14}{row.value:.3f} [{row.low:.3f}, {row.high:.3f}]  {selective}")
