"""What is trained: the recurrence against allennlp's own cells, the offset heads against their definition, the objectives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from allennlp_light.modules.lstm_cell_with_projection import LstmCellWithProjection  # noqa: E402

from studies.training.learner import Learner, Material, learner_class, prepare  # noqa: E402
from studies.training.recipe import OffsetHeads, read_recipe  # noqa: E402
from studies.training.recurrence import run_cells  # noqa: E402
from studies.training.text import divide, read_text  # noqa: E402
from studies.training.vocabulary import CLS, MASK, PAD, SEP  # noqa: E402


def cells(clip: float | None) -> list[Any]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return [
            LstmCellWithProjection(
                5, 4, 7, memory_cell_clip_value=clip and 3 * clip, state_projection_clip_value=clip
            ).double()
            for _ in range(2)
        ]


@pytest.mark.parametrize("clip", [None, 0.1, 3.0])
def test_the_recurrence_is_the_official_cell_with_its_gradients(clip: float | None) -> None:
    pair = cells(clip)
    generator = torch.Generator().manual_seed(1)
    inputs = (3 * torch.randn(2, 6, 3, 5, dtype=torch.float64, generator=generator)).requires_grad_()
    fast = run_cells(pair, inputs)
    slow = torch.stack([cell(inputs[i].transpose(0, 1), [6, 6, 6])[0].transpose(0, 1) for i, cell in enumerate(pair)])
    if clip == 0.1:
        assert (slow.abs() == clip).any(), "nothing was clipped, so nothing was tested"
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-14)
    weights = torch.randn(fast.shape, dtype=torch.float64, generator=generator)
    wanted = [inputs, *(parameter for cell in pair for parameter in cell.parameters())]
    for one, other in zip(
        torch.autograd.grad((fast * weights).sum(), wanted),
        torch.autograd.grad((slow * weights).sum(), wanted),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.fixture(scope="module")
def learner_of(planted: Path, training_examples: ModuleType) -> Callable[..., Learner]:
    text, files = read_text([planted])

    def build(kind: str, **changes: Any) -> Learner:
        recipe = read_recipe(training_examples.tiny_recipe(kind, **changes))
        material: Material = prepare(recipe, divide(text, files, share=0.1, seed=0))
        return learner_class(recipe)(material)

    return build


def batch(learner: Learner) -> Any:
    return next(iter(learner.material.held_out_batches(None)))


@pytest.mark.parametrize("offset", [-3, -1, 1, 2])
def test_a_head_starts_by_attending_to_its_offset(
    training_examples: ModuleType, learner_of: Callable[..., Learner], offset: int
) -> None:
    recipe = training_examples.tiny_recipe("bert", length=30, text={"excerpt": 30, "reach": 32, "held_out": 0.1})
    recipe["transformer"]["offset_heads"]["layers"] = [[offset, 0]]
    recipe["transformer"]["offset_heads"]["frequencies"] = 8
    learner = learner_of("bert", **{key: recipe[key] for key in ("length", "text", "transformer")})
    network: Any = learner.network
    network.bert.set_attn_implementation("eager")
    ids = torch.from_numpy(batch(learner).units)
    attention = network.bert(input_ids=ids, output_attentions=True).attentions[0][:, 0]
    size = ids.shape[1]
    inside = [(i, i + offset) for i in range(size) if 0 <= i + offset < size]
    # Eight frequencies tell offsets apart up to 15 places; at 16 the logit is as far below zero as it was above.
    mass = np.mean([attention[:, i, j].mean().item() for i, j in inside])
    assert mass > 0.9


def test_each_part_of_the_initialisation_can_be_switched_off(learner_of: Callable[..., Learner]) -> None:
    def parts(**change: Any) -> tuple[bool, bool, bool]:
        base = {"frequencies": 8, "layers": [[-1, 1]], **change}
        sizes = {"hidden_size": 32, "n_layers": 2, "n_heads": 2, "intermediate_size": 48, "vocabulary": 90}
        network: Any = learner_of("bert", transformer={**sizes, "offset_heads": base}).network
        embeddings = network.bert.embeddings
        words_avoid = not embeddings.word_embeddings.weight[:, 16:].any()
        table = not embeddings.position_embeddings.weight[:, :16].any()
        key = network.bert.encoder.layer[0].attention.self.key.weight
        return words_avoid, table, bool(key.abs().max() > 0.5)

    assert parts() == (True, True, True)
    assert parts(word_vectors_avoid=False) == (False, True, True)
    assert parts(layers=[]) == (True, True, False)
    assert parts(layers=[], position_table=False) == (True, False, False)
    with pytest.raises(ValueError, match="frequencies"):
        OffsetHeads(frequencies=0, layers=())


@pytest.mark.parametrize("kind", ["elmo", "bilstm-mlm", "bigpt", "bert"])
def test_the_same_seed_gives_the_same_start_and_another_seed_another(
    learner_of: Callable[..., Learner], kind: str
) -> None:
    before = torch.random.get_rng_state()
    one, same, other = (dict(learner_of(kind, seed=seed).network.named_parameters()) for seed in (0, 0, 1))
    assert torch.equal(torch.random.get_rng_state(), before), "the global random state was touched"
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_the_directions_of_elmo_predict_from_one_side_only(learner_of: Callable[..., Learner]) -> None:
    learner: Any = learner_of("elmo")
    learner.network.double()
    rows = batch(learner)
    top, targets = learner._top(rows)
    number, length = rows.units.shape
    shape = (2, length, number)
    top, targets = top.view(*shape, -1), targets.view(shape)
    assert np.array_equal(targets[0].T, learner.material.targets[rows.units])
    assert np.array_equal(targets[1].T, learner.material.targets[rows.units[:, ::-1]])
    changed = rows.units.copy()
    changed[:, 5] = np.where(changed[:, 5] == 0, 1, 0)
    other, _ = learner._top(type(rows)(changed, rows.places, rows.words))
    differs = (other.view(*shape, -1) != top).any(-1).any(-1)
    # Forward step t predicts word t from the words before it; backward step t predicts word length - 1 - t.
    assert differs[0].tolist() == [t > 5 for t in range(length)]
    assert differs[1].tolist() == [length - 1 - t < 5 for t in range(length)]


@pytest.mark.parametrize("kind", ["elmo", "bigpt"])
def test_the_sampled_softmax_estimates_the_full_one(learner_of: Callable[..., Learner], kind: str) -> None:
    # With very many negatives the sampled loss estimates the full one.
    learner: Any = learner_of(kind, sampled_softmax=60_000)
    learner.network.double()
    rows = batch(learner)
    sampled = learner.loss(rows, 0, full=False).item()
    if kind == "elmo":
        top, targets = learner._top(rows)
        scores = learner.network.softmax(top)
        scores[:, :2] = float("-inf")  # the boundary words are never drawn
    else:
        top, targets = learner._tops(rows)
        scores = learner.network.scores(top)
        scores[:, [PAD, CLS, SEP, MASK]] = float("-inf")
    full = torch.nn.functional.cross_entropy(scores, targets).item()
    assert abs(sampled - full) < 0.03
    few: Any = learner_of(kind, sampled_softmax=2)
    assert abs(few.loss(rows, 0, full=False).item() - full) > 0.03


@pytest.mark.parametrize("kind", ["bilstm-mlm", "bert"])
def test_a_masked_word_is_hidden_from_the_model_that_predicts_it(learner_of: Callable[..., Learner], kind: str) -> None:
    learner: Any = learner_of(kind, masks={"rate": 0.2, "masked": 1.0, "random": 0.0})
    learner.network.double()
    rows = batch(learner)
    masked = learner._masks(rows, 0)
    scores, targets = learner._scores(rows, learner._masks, 0)
    changed = np.where(masked.hidden, 6, rows.units)
    other, _ = learner._scores(type(rows)(changed, rows.places, rows.words), learner._masks, 0)
    assert torch.equal(scores, other)
    assert np.array_equal(targets, learner.material.targets[rows.units][masked.predicted])
    visible = np.where(masked.hidden, rows.units, 6)
    other, _ = learner._scores(type(rows)(visible, rows.places, rows.words), learner._masks, 0)
    assert not torch.equal(scores, other)


def test_without_masks_the_joint_bilstm_sees_its_target(learner_of: Callable[..., Learner]) -> None:
    learner: Any = learner_of("bilstm-mlm", masks={"rate": 1.0, "masked": 0.0, "random": 0.0})
    rows = batch(learner)
    scores, targets = learner._scores(rows, learner._masks, 0)
    assert len(targets) == rows.units.size
    assert len(scores) == rows.units.size


def test_bert_with_causal_attention_reads_no_right_side(
    training_examples: ModuleType, learner_of: Callable[..., Learner]
) -> None:
    sizes = training_examples.tiny_recipe("bert")["transformer"]
    for causal in (False, True):
        start = {"frequencies": 8, "layers": [[-1, -2]]}
        learner = learner_of("bert", transformer={**sizes, "causal": causal, "offset_heads": start})
        network: Any = learner.network.double()
        ids = torch.from_numpy(batch(learner).units)
        one = network.bert(input_ids=ids).last_hidden_state
        ids[:, 8] = 7
        other = network.bert(input_ids=ids).last_hidden_state
        assert torch.equal(one[:, :8], other[:, :8]) is causal
        assert not torch.equal(one[:, 9:], other[:, 9:])


@pytest.mark.parametrize("kind", ["elmo", "bilstm-mlm", "bigpt", "bert"])
def test_parameters_are_counted_exactly(learner_of: Callable[..., Learner], kind: str) -> None:
    learner = learner_of(kind)
    counts = learner.count_parameters(learner.recipe, len(learner.material.vocabulary))
    named = dict(learner.network.named_parameters())
    assert set(learner.embeddings) <= named.keys()
    assert counts.total == sum(parameter.numel() for parameter in named.values())
    left = sum(tensor.numel() for name, tensor in named.items() if name not in learner.embeddings)
    assert counts.without_embeddings == left


def test_the_unigram_loss_is_that_of_the_training_counts(learner_of: Callable[..., Learner]) -> None:
    material = learner_of("elmo").material
    words = [material.text.training.types[i] for i in material.text.training.words]
    known = set(material.vocabulary)
    counts = dict.fromkeys(material.vocabulary, 1)
    for word in words:
        counts[word if word in known else "<UNK>"] += 1
    total = sum(counts.values())
    held = [material.text.held_out.types[i] for i in material.text.held_out.words]
    expected = -np.mean([np.log(counts[word if word in known else "<UNK>"] / total) for word in held])
    assert material.unigram_loss() == pytest.approx(expected)


@pytest.mark.parametrize("with_bias", [True, False])
def test_the_chunked_cross_entropy_is_the_usual_one_with_its_gradients(with_bias: bool) -> None:
    from studies.training.cross_entropy import linear_cross_entropy

    generator = torch.Generator().manual_seed(0)
    inputs, weight, bias = (
        torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()
        for shape in ((600, 7), (30, 7), (30,))
    )
    targets = torch.randint(30, (600,), generator=generator)
    chosen = bias if with_bias else None
    wanted = [inputs, weight, *([bias] if with_bias else [])]
    fast = linear_cross_entropy(inputs, weight, chosen, targets)
    slow = torch.nn.functional.cross_entropy(torch.nn.functional.linear(inputs, weight, chosen), targets)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-12)
    for one, other in zip(torch.autograd.grad(3 * fast, wanted), torch.autograd.grad(3 * slow, wanted), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
