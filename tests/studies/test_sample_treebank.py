"""The bundled treebank is well-formed, has the sizes its README gives, and is large enough for what it is bundled for."""

from __future__ import annotations

import re
from collections import Counter
from importlib.resources import files
from itertools import pairwise

import conllu
import pytest
from conllu.models import Token, TokenList

FOLDER = files("studies") / "data"

# The pairs of Penn tag and universal tag that the English guidelines know; what is absent here is a slip.
UPOS_OF_XPOS = {
    "CC": {"CCONJ"},
    "CD": {"NUM"},
    "DT": {"DET", "PRON"},
    "EX": {"PRON"},
    "IN": {"ADP", "SCONJ"},
    "JJ": {"ADJ"},
    "JJR": {"ADJ"},
    "JJS": {"ADJ"},
    "MD": {"AUX"},
    "NN": {"NOUN", "PRON"},
    "NNS": {"NOUN"},
    "NNP": {"PROPN"},
    "NNPS": {"PROPN"},
    "PDT": {"DET"},
    "POS": {"PART"},
    "PRP": {"PRON"},
    "PRP$": {"PRON"},
    "RB": {"ADV", "PART"},
    "RBR": {"ADV"},
    "RP": {"ADP"},
    "TO": {"PART"},
    "UH": {"INTJ"},
    "VB": {"VERB", "AUX"},
    "VBD": {"VERB", "AUX"},
    "VBG": {"VERB"},
    "VBN": {"VERB", "AUX"},
    "VBP": {"VERB", "AUX"},
    "VBZ": {"VERB", "AUX"},
    "WDT": {"PRON", "DET"},
    "WP": {"PRON"},
    "WP$": {"PRON"},
    "WRB": {"ADV"},
    **{mark: {"PUNCT"} for mark in (",", ".", ":", "``", "''")},
}

# What a word in this relation may be.
UPOS_OF_DEPREL = {
    "det": {"DET"},
    "case": {"ADP", "PART"},
    "cc": {"CCONJ"},
    "aux": {"AUX"},
    "cop": {"AUX"},
    "mark": {"SCONJ", "PART"},
    "amod": {"ADJ", "VERB"},
    "nummod": {"NUM"},
    "punct": {"PUNCT"},
    "discourse": {"INTJ"},
    "flat": {"PROPN"},
}

CLAUSAL = "root nsubj csubj obj iobj obl ccomp xcomp advcl acl parataxis expl discourse vocative aux cop mark punct"
NOMINAL = "nmod amod advmod appos nummod det case compound fixed flat cc conj"
RELATIONS = frozenset(CLAUSAL.split()) | frozenset(NOMINAL.split())


@pytest.fixture(scope="module")
def text() -> str:
    return (FOLDER / "sample.conllu").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def sentences(text: str) -> list[TokenList]:
    return list(conllu.parse(text))


def words(sentence: TokenList) -> list[Token]:
    return [token for token in sentence if isinstance(token["id"], int)]


def name(sentence: TokenList) -> str:
    return str(sentence.metadata["sent_id"])


def ancestors(tokens: list[Token], token: Token) -> list[int]:
    """Ids on the way from a word to the root, the virtual 0 included; a way longer than the sentence is a cycle."""
    path = []
    while token["head"] != 0:
        path.append(token["head"])
        if len(path) > len(tokens):
            raise AssertionError(f"cycle at {token['form']}")
        token = tokens[token["head"] - 1]
    return [*path, 0]


def split_documents(sentences: list[TokenList]) -> dict[str, list[TokenList]]:
    documents: dict[str, list[TokenList]] = {}
    current = None
    for sentence in sentences:
        if "newdoc id" in sentence.metadata:
            current = sentence.metadata["newdoc id"]
            assert current not in documents
            documents[current] = []
        assert current is not None, "sentences before the first document"
        documents[current].append(sentence)
    return documents


def test_file_is_plain_unix_text_with_ten_columns(text: str) -> None:
    assert "\r" not in text
    assert text.endswith("\n\n")
    assert text.isascii()
    for line in text.split("\n"):
        if line and not line.startswith("# "):
            fields = line.split("\t")
            assert len(fields) == 10
            assert all(field and field == field.strip() for field in fields), line


def test_ids_and_texts_are_unique_and_numbered(sentences: list[TokenList]) -> None:
    assert len({name(sentence) for sentence in sentences}) == len(sentences)
    assert len({sentence.metadata["text"] for sentence in sentences}) == len(sentences)
    for sentence in sentences:
        assert [token["id"] for token in words(sentence)] == list(range(1, len(words(sentence)) + 1)), name(sentence)
    for document, members in split_documents(sentences).items():
        assert [name(member) for member in members] == [f"{document}-{i:02d}" for i in range(1, len(members) + 1)]


def test_text_is_what_the_words_spell(sentences: list[TokenList]) -> None:
    for sentence in sentences:
        pieces: list[str] = []
        covered = 0
        for token in sentence:
            if isinstance(token["id"], tuple):
                first, _, covered = token["id"]
                parts = words(sentence)[first - 1 : covered]
                assert "".join(part["form"] for part in parts) == token["form"], name(sentence)
            elif token["id"] <= covered:
                assert "SpaceAfter" not in token["misc"], name(sentence)
                continue
            glued = (token["misc"] or {}).get("SpaceAfter") == "No"
            pieces.append(token["form"] + ("" if glued else " "))
        assert "".join(pieces).rstrip(" ") == sentence.metadata["text"]


def test_every_sentence_is_one_projective_tree(sentences: list[TokenList]) -> None:
    for sentence in sentences:
        tokens = words(sentence)
        roots = [token for token in tokens if token["head"] == 0]
        assert len(roots) == 1, name(sentence)
        assert roots[0]["deprel"] == "root"
        for token in tokens:
            head = token["head"]
            assert 0 <= head <= len(tokens)
            assert head == 0 or token["deprel"] != "root"
            assert ancestors(tokens, token)[-1] == 0, name(sentence)
            low, high = sorted((token["id"], head))
            for between in tokens[low : high - 1] if head else ():
                assert head in ancestors(tokens, between), (
                    f"{name(sentence)}: {token['form']} crosses {between['form']}"
                )


def test_function_words_have_no_dependents_of_their_own(sentences: list[TokenList]) -> None:
    # What the guidelines allow beneath them: parts of a fixed expression, and adverbs that modify the function word.
    for sentence in sentences:
        tokens = words(sentence)
        for token in tokens:
            head = tokens[token["head"] - 1] if token["head"] else None
            if head is not None and head["deprel"].split(":")[0] in {
                "case",
                "mark",
                "cc",
                "aux",
                "cop",
                "det",
                "punct",
            }:
                assert token["deprel"] in {"fixed", "advmod"}, f"{name(sentence)}: {token['form']} under {head['form']}"


def test_tags_and_relations_fit_each_other(sentences: list[TokenList]) -> None:
    for sentence in sentences:
        for token in words(sentence):
            where = f"{name(sentence)}: {token['form']} {token['upos']} {token['xpos']} {token['deprel']}"
            assert token["upos"] in UPOS_OF_XPOS[token["xpos"]], where
            relation = token["deprel"].split(":")[0]
            assert relation in RELATIONS, where
            if relation in UPOS_OF_DEPREL and token["deprel"] != "det:predet":
                assert token["upos"] in UPOS_OF_DEPREL[relation], where
            assert (token["upos"] == "PUNCT") == (relation == "punct"), where
            assert (token["upos"] == "PUNCT") == (not any(map(str.isalnum, token["form"]))), where
            if relation in {"case", "obj", "iobj", "cop", "aux", "xcomp"}:
                assert token["head"] != 0, where
            features = token["feats"] or {}
            assert list(features) == sorted(features, key=str.lower), where
            assert (features.get("VerbForm") is not None) == (token["upos"] in {"VERB", "AUX"}), where
            assert (features.get("Number") is not None) >= (token["upos"] in {"NOUN", "PROPN"}), where


def test_a_verb_has_at_most_one_subject_and_one_object(sentences: list[TokenList]) -> None:
    for sentence in sentences:
        found = Counter((t["head"], t["deprel"].split(":")[0]) for t in words(sentence))
        for (head, relation), count in found.items():
            assert count == 1 or relation not in {"nsubj", "obj", "iobj", "cop", "expl"}, (
                f"{name(sentence)}: {head} {relation}"
            )


def test_entity_tags_are_iob2_on_every_word(sentences: list[TokenList]) -> None:
    for sentence in sentences:
        tags = [token["misc"]["NER"] for token in words(sentence)]
        assert set(tags) <= {"O", *(f"{b}-{kind}" for b in "BI" for kind in ("PER", "LOC", "ORG"))}
        for before, after in pairwise(["O", *tags]):
            assert not after.startswith("I-") or before[1:] == after[1:], f"{name(sentence)}: {before} {after}"
        for token, tag in zip(words(sentence), tags, strict=True):
            assert tag == "O" or token["upos"] in {"PROPN", "ADP"}, f"{name(sentence)}: {token['form']} {tag}"


def test_sizes_are_those_of_the_readme(sentences: list[TokenList]) -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\w[\w ]*) \| (.*) \|$", readme, flags=re.MULTILINE))
    numbers = {
        label: [int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*\d|\d", value)] for label, value in rows.items()
    }
    tokens = [token for sentence in sentences for token in words(sentence)]
    kinds = Counter(tag[2:] for token in tokens if (tag := token["misc"]["NER"]).startswith("B-"))
    assert numbers["documents"] == [len(split_documents(sentences))]
    assert numbers["sentences"] == [len(sentences)]
    assert numbers["words"] == [len(tokens), sum(token["upos"] != "PUNCT" for token in tokens)]
    assert numbers["entity mentions"] == [sum(kinds.values()), kinds["PER"], kinds["LOC"], kinds["ORG"]]


def test_it_is_large_and_varied_enough(sentences: list[TokenList]) -> None:
    assert len(sentences) >= 420
    texts = [str(sentence.metadata["text"]) for sentence in sentences]
    lengths = [len(words(sentence)) for sentence in sentences]
    assert sum(text.rstrip('"').endswith("?") for text in texts) >= 40
    assert sum('"' in text for text in texts) >= 40
    assert sum(text.count(", ") >= 2 for text in texts) >= 40
    assert sum(length <= 8 for length in lengths) >= 60
    assert sum(length >= 20 for length in lengths) >= 50
    mentions = Counter(tag[2:] for s in sentences for t in words(s) if (tag := t["misc"]["NER"]).startswith("B-"))
    assert sum(mentions.values()) >= 150
    assert min(mentions[kind] for kind in ("PER", "LOC", "ORG")) >= 30


def test_passives_have_passive_subjects(sentences: list[TokenList]) -> None:
    for sentence in sentences:
        tokens = words(sentence)
        passive = {token["head"] for token in tokens if token["deprel"] == "aux:pass"}
        for token in tokens:
            if token["deprel"] in {"nsubj", "nsubj:pass"}:
                assert (token["deprel"] == "nsubj:pass") == (token["head"] in passive), (
                    f"{name(sentence)}: {token['form']}"
                )


def test_documents_allow_a_split(sentences: list[TokenList]) -> None:
    documents = split_documents(sentences)
    assert len(documents) >= 50
    assert all(6 <= len(members) <= 12 for members in documents.values())
    # Every universal tag that is common enough to probe must occur in many documents, or a split by document loses it.
    spread = Counter(
        tag for members in documents.values() for tag in {t["upos"] for member in members for t in words(member)}
    )
    assert all(spread[tag] >= 12 for tag in ("NOUN", "VERB", "ADJ", "ADV", "PRON", "DET", "ADP", "AUX", "PROPN", "NUM"))


def test_direction_shares_find_their_targets(sentences: list[TokenList]) -> None:
    sides = 4
    occurrences: Counter[str] = Counter()
    for sentence in sentences:
        forms = [token["form"] for token in words(sentence)]
        # One per sentence: left and right parts of one target come from different sentences.
        occurrences.update(set(forms[sides : len(forms) - sides]))
    targets = {form for form, count in occurrences.items() if count >= 8 and form.isalpha()}
    assert len(targets) >= 12
    assert {"the", "a", "of", "and", "to", "in", "was", "that", "had", "with", "not", "her", "his"} <= targets
    assert {"water", "house", "old", "little", "made", "went", "left", "light", "time"} <= targets
    assert sum(occurrences[form] >= 16 for form in targets) >= 8
