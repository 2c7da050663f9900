"""Attention distance on rollout and norm-weighted maps: closed forms, tiny models against slow independent code, exact zeros."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import comb
from typing import Any

import numpy as np
import pytest

from analyses import attention_distance
from analyses.attention_maps import rolled_out_uniform_rows, sentence_sums, uniform_rows
from extractors import load_extractor
from extractors.foundation.randomness import generator_for
from extractors.representation import Alignment, AttentionMaps

Words = tuple[str, ...]
SYLLABLES = ("ba", "lo", "mi", "tu", "se", "ra", "no", "ki")
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def flat(words: Words) -> np.ndarray:
    return np.zeros((4, len(words), 2))


@pytest.fixture
def rolling(fake: Any) -> Callable[..., Any]:
    """A fake model with rollout by the extractors' own function, and norm-weighted maps with norms 1, 2, 1, 2, ... per word."""
    import torch

    from extractors.huggingface.attention import norm_weighted, rolled_out

    class Rolling(fake):  # type: ignore[misc]
        def attention_gap(self, variant: str) -> None:
            return None

        def _forward(self, windows: Sequence[Any], *, layers: Any, pooling: str, attention: bool) -> list[Any]:
            plain = super()._forward(windows, layers=layers, pooling=pooling, attention=attention)
            found = []
            for window, output in zip(windows, plain, strict=True):
                maps = torch.tensor(self.attention(window.payload))
                kept = [layer - 1 for layer in layers if layer > 0]
                norms = 1.0 + torch.arange(maps.shape[-1], dtype=maps.dtype) % 2
                flow = torch.stack(list(rolled_out(maps)))[kept][:, None].numpy()
                weighted = norm_weighted(maps, norms.expand(maps.shape[:-1]))[kept].numpy()
                every = {"rollout": flow, "norm-weighted": weighted}
                variants = {
                    name: AttentionMaps(every[name], np.zeros(every[name].shape[:-1]))
                    for name in self.attention_variants
                }
                found.append(replace(output, variants=variants))
            return found

    return Rolling


def planted(kind: str) -> Callable[[Words], np.ndarray]:
    """Three layers of two heads of a kind."""

    def attention(words: Words) -> np.ndarray:
        n = len(words)
        maps = {
            "uniform": np.full((n, n), 1 / n),
            "causal": np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None],
            "diagonal": np.eye(n),
            "previous": np.eye(n, k=-1) + np.eye(n) * (np.arange(n) == 0),
        }
        return np.broadcast_to(maps[kind], (3, 2, n, n))

    return attention


def values(
    result: Any, condition: str, layer: int, *, head: int | None = None, part: str = "whole"
) -> dict[str, float]:
    rows = result.rows()
    return {
        row["measure"]: row["value"]
        for row in rows
        if (row["condition"], row["layer"], row["head"], row["part"]) == (condition, layer, head, part)
    }


@pytest.mark.parametrize("n", [1, 2, 6])
def test_rollout_of_uniform_heads(rolling: Any, n: int) -> None:
    """R_l = 2^-l I + (1 - 2^-l) U: distances shrink by that factor, and the baseline knows of special tokens."""
    result = attention_distance(rolling(flat, attention=planted("uniform")), [SYLLABLES[:n]])
    for layer in (1, 2, 3):
        share = 1 - 0.5**layer
        found = values(result, "rollout", layer)
        assert found["attention_distance"] == pytest.approx(share * (n**2 - 1) / (3 * n), abs=1e-14)
        assert found["attention_mass_self"] == pytest.approx(1 - share + share / n, abs=1e-14)
        assert found["attention_signed_distance"] == pytest.approx(0, abs=1e-14)
        other, same = share / n, 1 - share + share / n
        entropy = -same * np.log2(same) - (n - 1) * other * np.log2(other)
        assert found["attention_entropy"] == pytest.approx(entropy, abs=1e-12)
        # The fake model's alignment has two special tokens: uniform attention gives them their shares, which are left out.
        piece = share / (n + 2)
        even = values(result, "rollout uniform", layer)
        assert even["attention_mass_self"] == pytest.approx((1 - share + piece) / (1 - 2 * piece), abs=1e-14)
        assert "attention_mass_special" not in even
        assert {row["head"] for row in result.rows() if row["condition"].startswith("rollout")} == {None}


def test_rollout_of_heads_that_look_at_themselves_or_at_the_word_before(rolling: Any) -> None:
    """Each layer goes one word back with probability 1/2, and stays at the first word."""
    n = 7
    still = attention_distance(rolling(flat, attention=planted("diagonal")), [SYLLABLES[:n]])
    back = attention_distance(rolling(flat, attention=planted("previous")), [SYLLABLES[:n]])
    for layer in (1, 2, 3):
        assert values(still, "rollout", layer)["attention_mass_self"] == 1
        assert values(still, "rollout", layer)["attention_distance"] == 0
        assert values(still, "rollout", layer)["attention_entropy"] == 0
        steps = [comb(layer, k) / 2**layer for k in range(layer + 1)]
        expected = np.mean([sum(share * min(k, i) for k, share in enumerate(steps)) for i in range(n)])
        found = values(back, "rollout", layer)
        assert found["attention_distance"] == pytest.approx(expected, abs=1e-14)
        assert found["attention_signed_distance"] == pytest.approx(-expected, abs=1e-14)
        assert found["attention_mass_right"] == 0


def test_norm_weighting_of_uniform_heads(rolling: Any) -> None:
    """Norms 1, 2, 1, 2, 1: the shares of a row are 1/7 and 2/7; where every row has one word, norms change nothing."""
    model = rolling(flat, attention=planted("uniform"))
    found = values(attention_distance(model, [SYLLABLES[:5]]), "norm-weighted", 2, head=1)
    shares = np.array([1, 2, 1, 2, 1]) / 7
    place = np.arange(5)
    assert found["attention_distance"] == pytest.approx(
        np.mean([(shares * abs(place - i)).sum() for i in range(5)]), abs=1e-14
    )
    assert found["attention_mass_self"] == pytest.approx(1 / 5, abs=1e-14)
    assert found["attention_entropy"] == pytest.approx(-(shares * np.log2(shares)).sum(), abs=1e-12)
    previous = attention_distance(rolling(flat, attention=planted("previous")), [SYLLABLES[:5]])
    assert values(previous, "norm-weighted", 1, head=0) == pytest.approx(
        values(previous, "plain", 1, head=0), abs=1e-14
    )


def test_a_head_that_reads_nothing_has_no_distance() -> None:
    """A row without mass is left out of the average; a head without any mass is undefined, not 0."""
    words = np.array([[[[0.0, 0.0], [0.5, 0.25]]]])
    special = np.array([[[0.0, 0.25]]])
    even = uniform_rows(Alignment(("a", "b"), ("x", "x"), ((0,), (1,))), "bidirectional")
    sums = sentence_sums(words, special, even)[0, 0]
    assert sums[[0, 2, 3, 4, 6, 7, 8]].tolist() == [0.5, 0.5, 0.25, 0, 0.25, 0.75, 1]
    nothing = sentence_sums(0 * words, 0 * special, even)
    assert not nothing.any()


@pytest.mark.parametrize("way", ["bidirectional", "left-to-right", "right-to-left"])
def test_the_rollout_baseline_equals_a_slow_product_over_pieces(way: str) -> None:
    pieces = ((1,), (2, 3, 4), (5, 6))
    alignment = Alignment(("a", "b", "c"), tuple("x" * 8), pieces)
    allowed = {
        "bidirectional": lambda i, j: True,
        "left-to-right": lambda i, j: j <= i,
        "right-to-left": lambda i, j: j >= i,
    }
    step = np.zeros((8, 8))
    for i in range(8):
        reach = [j for j in range(8) if allowed[way](i, j)]
        for j in reach:
            step[i, j] += 0.5 / len(reach)
        step[i, i] += 0.5
    found = rolled_out_uniform_rows(alignment, way, (1, 3))
    for line, layer in enumerate((1, 3)):
        flow = np.linalg.matrix_power(step, layer)
        between = np.array([[flow[np.ix_(a, b)].sum(axis=1).mean() for b in pieces] for a in pieces])
        between /= between.sum(axis=1, keepdims=True)
        for i in range(3):
            row = between[i]
            expected = [
                sum(row[j] * abs(i - j) for j in range(3)),
                sum(row[j] * (j - i) for j in range(3)),
                row[:i].sum(),
                row[i],
                row[i + 1 :].sum(),
                -sum(share * np.log2(share) for share in row if share > 0),
            ]
            np.testing.assert_allclose(found[line, i], expected, atol=1e-14)
    assert np.isnan(rolled_out_uniform_rows(alignment, "unknown", (1,))).all()


# Tiny models built from configurations, with weights large enough for every layer to matter.


@pytest.fixture(scope="module")
def text() -> list[Words]:
    """Sentences of words of one to three syllables; every syllable is a piece."""
    generator = generator_for("tiny transformers with variants")
    return [
        tuple("".join(generator.choice(SYLLABLES, size=size)) for size in generator.integers(1, 4, size=length))
        for length in (1, 5, 9, 6)
    ]


def piece_tokenizer(*, template: bool) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    known = [*SPECIAL, *SYLLABLES, *(f"##{syllable}" for syllable in SYLLABLES)]
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(known)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if template:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    return tokenizer


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """Build a tiny float64 BERT, GPT-2, XLNet or pair of GPTs."""

    def build(family: str) -> Any:
        import torch
        from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

        folder = tmp_path_factory.mktemp("tiny") / family
        tokenizer = piece_tokenizer(template=family != "gpt2")
        sizes: dict[str, Any] = {
            "bert": {"hidden_size": 12, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 20},
            "gpt2": {"n_embd": 12, "n_layer": 3, "n_head": 2, "bos_token_id": 2, "eos_token_id": 2},
            "xlnet": {"d_model": 12, "n_layer": 2, "n_head": 2, "d_inner": 20},
        }
        with torch.random.fork_rng():
            torch.manual_seed(5)
            if family == "bigpt":
                from extractors.bigpt import BigptConfig
                from extractors.bigpt.network import build_network, draw_weights
                from extractors.native import write_model

                config = BigptConfig(
                    vocab_size=20, hidden_size=12, n_layers=3, n_heads=2, intermediate_size=20, n_positions=40
                )
                network = draw_weights(build_network(config), 0)
                for name, parameter in network.named_parameters():
                    if "norm" not in name:
                        torch.nn.init.normal_(parameter, std=0.4)
                folder.mkdir()
                write_model(folder, config, network.state_dict(), torch.float32)
                tokenizer.save(str(folder / "tokenizer.json"))
            else:
                names = {"unk_token": "[UNK]", "pad_token": "[PAD]", "bos_token": "[CLS]"}
                PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
                model = AutoModel.from_config(AutoConfig.for_model(family, vocab_size=20, **sizes[family]))
                for name, parameter in model.named_parameters():
                    if "norm" not in name.lower() and "ln_" not in name:
                        torch.nn.init.normal_(parameter, std=0.4)
                model.save_pretrained(folder)
        return load_extractor(folder, dtype="float64")

    return build


def own_pieces(extractor: Any, words: Words, *, start: bool) -> tuple[list[int], list[int | None]]:
    """Ids and the word of each, from syllables."""
    known = [*SPECIAL, *SYLLABLES, *(f"##{syllable}" for syllable in SYLLABLES)]
    ids, owners = [2], [None]
    for number, word in enumerate(words):
        syllables = [word[i : i + 2] for i in range(0, len(word), 2)]
        ids += [known.index(("##" if i else "") + syllable) for i, syllable in enumerate(syllables)]
        owners += [number] * len(syllables)
    return (ids, owners) if start else ([*ids, 3], [*owners, None])


def slow_variants(extractor: Any, words: Words) -> tuple[dict[str, np.ndarray], list[int | None]]:
    """Piece-level rollout (layers, 1, pieces, pieces) and norm-weighted maps (layers, heads, pieces, pieces) from weights."""
    import torch

    family = extractor.info.family
    ids, owners = own_pieces(extractor, words, start=family == "gpt2")
    model = extractor.model
    model.set_attn_implementation("eager")
    with torch.no_grad():
        output = model(torch.tensor([ids]), output_attentions=True, output_hidden_states=True)
    maps = [attention[0].numpy() for attention in output.attentions]
    weighted, flow, flows = [], np.eye(len(ids)), []
    for layer, attention in enumerate(maps):
        states = output.hidden_states[layer][0]
        if family == "bert":
            block = model.encoder.layer[layer].attention
            parts = (block.self.value.weight.T, block.self.value.bias, block.output.dense.weight.T)
        else:
            block = model.h[layer]
            states = torch.nn.functional.layer_norm(states, (12,), block.ln_1.weight, block.ln_1.bias, block.ln_1.eps)
            parts = (block.attn.c_attn.weight[:, 24:], block.attn.c_attn.bias[24:], block.attn.c_proj.weight)
        into, bias, out = (part.detach().numpy() for part in parts)
        heads = []
        for head in range(2):
            place = slice(6 * head, 6 * head + 6)
            read = (states.detach().numpy() @ into[:, place] + bias[place]) @ out[place]
            heads.append(attention[head] * np.linalg.norm(read, axis=1))
        weighted.append(np.stack([one / one.sum(axis=1, keepdims=True) for one in heads]))
        flow = (attention.mean(axis=0) / 2 + np.eye(len(ids)) / 2) @ flow
        flows.append(flow[None])
    return {"rollout": np.stack(flows), "norm-weighted": np.stack(weighted), "plain": np.stack(maps)}, owners


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_variants_of_a_transformer_equal_slow_code_over_its_own_weights(
    family: str, tiny: Callable[[str], Any], text: list[Words]
) -> None:
    extractor = tiny(family)
    result = attention_distance(extractor, text, batch_size=3)
    totals: dict[str, Any] = {}
    for words in text:
        n = len(words)
        pieces, owners = slow_variants(extractor, words)
        for condition, maps in pieces.items():
            sums = totals.setdefault(condition, np.zeros((*maps.shape[:2], 5)))
            for i in range(n):
                mine = [place for place, owner in enumerate(owners) if owner == i]
                rows = maps[:, :, mine].mean(axis=2)
                for place, owner in enumerate(owners):
                    share = rows[:, :, place]
                    if owner is None:
                        sums[..., 4] += share
                    else:
                        for column, factor in enumerate((1, abs(i - owner), owner - i, owner > i)):
                            sums[..., column] += share * factor
    assert set(result.statistics) == set(totals)
    for condition, sums in totals.items():
        for layer in (1, 2, 3):
            every = [*sums[layer - 1], sums[layer - 1].sum(axis=0)]
            lines = [every[-1]] if condition == "rollout" else every
            found = result.interval(layer, condition)
            mass, distance, signed, right, special = np.array(lines).T
            np.testing.assert_allclose(found.value[:, 0], distance / mass, atol=1e-10)
            np.testing.assert_allclose(found.value[:, 1], signed / mass, atol=1e-10)
            np.testing.assert_allclose(found.value[:, 4], right / mass, atol=1e-10)
            np.testing.assert_allclose(found.value[:, 6], special / (mass + special), atol=1e-10)
            assert found.n == len(text)
            assert (found.low <= found.value + 1e-12).all()
            assert (found.high >= found.value - 1e-12).all()
            if family == "gpt2":
                for bound in (found.low, found.value, found.high):
                    assert (bound[:, [4, 11]] == 0).all(), "right mass of a causal model is exactly 0"
            else:
                assert (found.low[:, 4] > 0.01).all(), "the zeros must be able to fail"


def test_each_tower_of_a_pair_reads_one_side_only(tiny: Callable[[str], Any], text: list[Words]) -> None:
    result = attention_distance(tiny("bigpt"), text)
    frame = result.to_frame()
    assert result.notes == ()
    assert set(frame["condition"]) == {"plain", "uniform", "rollout", "rollout uniform", "norm-weighted"}
    for part, nothing, something in (("forward", "right", "left"), ("backward", "left", "right")):
        tower = frame[frame["part"] == part]
        assert set(tower["condition"]) == set(frame["condition"])
        heads = {"forward": {0, 1}, "backward": {2, 3}}[part]
        assert set(tower.loc[tower["condition"] == "norm-weighted", "head"].dropna()) == heads
        unread = tower[tower["measure"] == f"attention_mass_{nothing}"]
        assert (unread[["low", "value", "high"]] == 0).all(axis=None)
        assert (tower.loc[tower["measure"] == f"attention_mass_{something}", "low"] > 0.01).all()
        sign = -1 if part == "forward" else 1
        apart = tower[tower["measure"] == "attention_signed_distance"]["value"].to_numpy()
        np.testing.assert_allclose(
            apart, sign * tower[tower["measure"] == "attention_distance"]["value"].to_numpy(), atol=1e-12
        )
    # Both towers have the same heads to choose from, mirrored: so have the baselines of rollout.
    even = frame[(frame["condition"] == "rollout uniform") & (frame["measure"] == "attention_mass_self")]
    assert even["value"].between(0.05, 0.95).all()
    assert (frame["part"] == "whole").sum() == 3 * (3 * 7 + 2 * 6), "of both towers there are the layers only"


def test_results_depend_neither_on_the_batch_nor_on_the_choice_of_layers(
    tiny: Callable[[str], Any], text: list[Words]
) -> None:
    for family in ("bert", "bigpt"):
        extractor = tiny(family)
        whole = attention_distance(extractor, text)
        single = attention_distance(extractor, text, batch_size=1, layers="last")
        for condition in whole.statistics:
            np.testing.assert_allclose(
                single.interval(3, condition).high, whole.interval(3, condition).high, atol=1e-10, err_msg=condition
            )
        again = attention_distance(extractor, text, seed=1)
        assert np.array_equal(again.interval(3).value, whole.interval(3).value)
        assert not np.array_equal(again.interval(3).high, whole.interval(3).high)


def test_variants_a_family_does_not_give_are_told(tiny: Callable[[str], Any], text: list[Words]) -> None:
    extractor = tiny("xlnet")
    result = attention_distance(extractor, text)
    assert set(result.statistics) == {"plain", "rollout"}
    assert len(result.notes) == 1
    assert "norm-weighted attention of xlnet is not available" in result.notes[0]
    assert "known types: albert" in result.notes[0]
    few = attention_distance(extractor, text, variants=())
    assert few.notes == ()
    assert {row["condition"] for row in few.rows()} == {"plain", "uniform"}
