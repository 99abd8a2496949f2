import copy
import dataclasses
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.errors import UsageError
from agentgym.training.learner.config import LearnerConfig
from agentgym.training.learner.critic import Critic
from agentgym.training.learner.distributed import Ranks
from agentgym.training.learner.logprobs import response_log_probs
from agentgym.training.learner.packing import StepRow
from agentgym.training.learner.tree import PACKINGS, _cuts, own_packs, pack_tree
from agentgym.training.learner.update import Learner
from tests.pace import within
from tests.training.batches import OBJECTIVES, some_batch, weights_of
from tests.training.padded import padded_statistics, padded_values

few = st.integers(0, 2)
alike = st.lists(
    st.builds(
        StepRow,
        st.lists(few, min_size=1, max_size=5).map(tuple),
        st.lists(few, max_size=4).map(tuple),
    ),
    max_size=14,
)
"""Rows of three tokens: many begin alike, are the same, or begin each other; some have no response."""


def read_of(row):
    return (*row.prompt_ids, *row.response_ids[:-1])


def seen_by(pack, place):
    """Return the tokens that the one at a place sees."""
    return [other for other in range(place + 1) if place < pack.ends[other]]


@given(alike, st.integers(1, 30))
def test_a_token_sees_the_row_up_to_itself(rows, budget):
    for pack in pack_tree(rows, token_budget=budget):
        predictors = iter(pack.predictors.tolist())
        for row, end in zip((rows[k] for k in pack.rows), pack.prompt_ends.tolist(), strict=True):
            path = seen_by(pack, end)
            assert pack.input_ids[path].tolist() == list(row.prompt_ids)
            for place in range(len(row.response_ids)):
                path = seen_by(pack, next(predictors))
                read = [*row.prompt_ids, *row.response_ids[:place]]
                assert pack.input_ids[path].tolist() == read
                assert pack.position_ids[path].tolist() == list(range(len(read)))
        assert next(predictors, None) is None


@given(alike, st.integers(1, 30))
def test_packs_hold_every_prefix_once_and_every_response_token_once(rows, budget):
    packs = pack_tree(rows, token_budget=budget)
    assert sorted(row for pack in packs for row in pack.rows) == list(range(len(rows)))
    sampled = np.array([token for row in rows for token in row.response_ids], dtype=np.int64)
    restored = np.full(len(sampled), -1)
    places = np.concatenate([pack.tokens for pack in packs]) if packs else np.zeros(0, dtype=np.int64)
    assert np.array_equal(np.sort(places), np.arange(len(sampled)))
    for pack in packs:
        restored[pack.tokens] = pack.targets.numpy()
        reads = [read_of(rows[row]) for row in pack.rows]
        assert len(pack.input_ids) == len({read[:size] for read in reads for size in range(1, len(read) + 1)})
        assert len(pack.input_ids) <= max(budget, *map(len, reads))
    assert np.array_equal(restored, sampled)


@given(alike, st.integers(1, 30))
def test_cuts_are_the_best_of_all(rows, budget):
    reads = sorted(filter(None, map(read_of, rows)))[:9]

    def common(one, other):
        return next((k for k, pair in enumerate(zip(one, other, strict=False)) if len({*pair}) > 1), None)

    shared = [0]
    for one, other in pairwise(reads):
        place = common(one, other)
        shared.append(min(len(one), len(other)) if place is None else place)

    def cost(cuts):
        total = 0.0
        for begin, end in pairwise(cuts):
            nodes = {read[:size] for read in reads[begin:end] for size in range(1, len(read) + 1)}
            if len(nodes) > max(budget, *map(len, reads[begin:end])):
                return None
            total += len(nodes) + budget / 16
        return total

    inner = range(1, len(reads))
    costs = [
        cost([0, *chosen, len(reads)]) for size in range(len(reads)) for chosen in combinations(inner, size)
    ]
    cuts = _cuts(np.array([len(read) for read in reads]), np.array(shared[: len(reads)]), budget)
    if reads:
        assert cost(cuts) == pytest.approx(min(each for each in costs if each is not None))
    else:
        assert cuts == [0]


def test_rows_that_begin_a_long_one_share_its_pack():
    ids = tuple(range(50))
    rows = [StepRow(ids[:size], ids[size : size + 2]) for size in (2, 10, 40)]
    packs = pack_tree([*rows, StepRow((7,), (8,))], token_budget=6)
    assert [len(pack.input_ids) for pack in packs] == [41, 1]
    assert [pack.rows.tolist() for pack in packs] == [[0, 1, 2], [3]]


def test_what_cannot_be_packed_is_refused():
    with pytest.raises(UsageError, match="token_budget must be at least 1, got 0"):
        pack_tree([], token_budget=0)
    with pytest.raises(UsageError, match="constrained and others free"):
        pack_tree([StepRow((1,), (2,), ((2,),)), StepRow((1,), (2,))], token_budget=4)
    assert pack_tree([StepRow((), ())], token_budget=4) == []
    with pytest.raises(UsageError, match="unknown packing 'bush'; choose one of tree, rows"):
        LearnerConfig(packing="bush")


def test_packing_takes_time_in_proportion_to_the_tokens():
    draws = np.random.default_rng(0)
    static = tuple(range(100))
    rows = [
        StepRow((*static, *draws.integers(0, 900, 380).tolist()), tuple(draws.integers(0, 900, 21).tolist()))
        for _ in range(2000)
    ]
    packs = within(2_000, lambda: pack_tree(rows, token_budget=2048))
    assert sum(len(pack.input_ids) for pack in packs) < 0.9 * sum(map(len, rows))


# ---- several ranks ------------------------------------------------------------------------------


@given(alike, st.integers(1, 30), st.integers(1, 5), st.sampled_from(list(PACKINGS)))
def test_ranks_go_through_all_response_tokens_in_step(rows, budget, size, packing):
    options = {"token_budget": budget, "packing": packing}
    dealt = [own_packs(rows, ranks=Ranks(rank, size), **options) for rank in range(size)]
    assert len({len(packs) for packs in dealt}) == 1
    assert len(dealt[0]) <= -(-len(PACKINGS[packing](rows, token_budget=budget)) // size)
    counted = [pack for packs in dealt for pack, counts in packs if counts]
    tokens = [token for pack in counted for token in pack.tokens.tolist()]
    assert sorted(tokens) == list(range(sum(len(row.response_ids) for row in rows)))
    assert all(len(pack.input_ids) <= max(budget, *map(len, rows)) for pack in counted)


def minibatch(steps=256, seed=0):
    """Steps as long as those of the papers' ALFWorld runs (instructions, what was seen, responses)."""
    draws = np.random.default_rng(seed)
    seen = draws.normal(210, 45, steps).clip(50).astype(int)
    said = np.exp(draws.normal(4.8, 0.6, steps)).clip(20, 512).astype(int)
    instructions = tuple(range(380))
    return [
        StepRow((*instructions, *draws.integers(0, 900, one).tolist()), (7,) * other)
        for one, other in zip(seen, said, strict=True)
    ]


def use_of_devices(rounds):
    """Return the tokens read over what the devices could have read: a round takes as long as its largest.

    ``rounds``: for each, the packs of all ranks, and whether each counts.
    """
    read = sum(len(pack.input_ids) for dealt in rounds for pack, counts in dealt if counts)
    return read / sum(len(dealt) * max(len(pack.input_ids) for pack, _ in dealt) for dealt in rounds)


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("budget", [65_536, 16_384])
@pytest.mark.parametrize("size", [2, 8, 64])
def test_devices_are_used_however_few_packs_would_hold_a_minibatch(size, budget, packing):
    rows = minibatch()
    options = {"token_budget": budget, "packing": packing}
    dealt = [own_packs(rows, ranks=Ranks(rank, size), **options) for rank in range(size)]
    assert use_of_devices(list(zip(*dealt, strict=True))) >= 0.8


def test_packs_as_large_as_they_can_be_leave_devices_idle():
    packs = pack_tree(minibatch(), token_budget=65_536)
    dealt = [Ranks(rank, 8).deal(packs) for rank in range(8)]
    assert use_of_devices(list(zip(*dealt, strict=True))) < 0.25


# ---- the same numbers ------------------------------------------------------------------------------


def episodes(constrained=False, seed=0, vocabulary=200):
    """Rows as rollouts make them: a group's prompts begin alike, some whole steps are the same.

    They are longer than a block of attention, and one response begins another row.
    """
    draws = np.random.default_rng(seed)

    def ids(size):
        return tuple(draws.integers(0, vocabulary, size).tolist())

    rows = []
    static = ids(40)
    for _ in range(2):
        task = static + ids(20)
        for _ in range(3):
            prompt = task
            for _ in range(3):
                said = ids(int(draws.integers(1, 5)))
                rows.append(StepRow(prompt, said))
                prompt = prompt + said + ids(8)
        rows += [rows[-2], StepRow(task, rows[-1].response_ids), StepRow(task, ())]
    rows += [StepRow(ids(1), ids(3)), StepRow(rows[0].prompt_ids[:30], rows[0].prompt_ids[30:34])]
    if not constrained:
        return rows
    return [
        dataclasses.replace(
            row,
            choices=tuple(
                tuple(sorted({token, *draws.integers(0, vocabulary, place % 4 + k % 3).tolist()}))
                for place, token in enumerate(row.response_ids)
            ),
        )
        for k, row in enumerate(rows)
    ]


def gathered(packs, compute, counts):
    """Put the packs' columns back into the rows' order."""
    columns = None
    for pack in packs:
        results = compute(pack)
        if columns is None:
            columns = [
                torch.zeros(count, dtype=column.dtype) for count, column in zip(counts, results, strict=True)
            ]
        for column, result, place in zip(columns, results, (pack.tokens, pack.tokens), strict=True):
            column[torch.from_numpy(place)] = result
    return columns


def gradients(module, numbers, weights):
    module.zero_grad()
    sum((number * weight).sum() for number, weight in zip(numbers, weights, strict=True)).backward()
    return torch.cat([weight.grad.flatten() for weight in module.parameters()])


@pytest.mark.parametrize("budget", [150, 5000])
@pytest.mark.parametrize("chunk_logits", [1, 10**6])
@pytest.mark.parametrize("constrained", [False, True])
def test_padded_rows_and_trees_agree_on_responses(language_model, constrained, chunk_logits, budget):
    model = copy.deepcopy(language_model.model)
    rows = episodes(constrained)
    total = sum(len(row.response_ids) for row in rows)
    draws = torch.Generator().manual_seed(1)
    weights = [torch.randn(total, generator=draws) for _ in range(2)]

    def compute(pack):
        return response_log_probs(model, pack, temperature=0.7, chunk_logits=chunk_logits)

    expected = padded_statistics(model, rows, 0.7)
    of_weights = gradients(model, expected, weights)
    read = {}
    for packing, pack in PACKINGS.items():
        packs = pack(rows, token_budget=budget)
        read[packing] = sum(len(pack.input_ids) for pack in packs)
        actual = gathered(packs, compute, (total, total))
        for ours, theirs in zip(actual, expected, strict=True):
            assert (ours - theirs).abs().max() < 1e-5
        assert (gradients(model, actual, weights) - of_weights).norm() < 1e-6 * of_weights.norm()
    assert read["rows"] == sum(map(len, rows))
    assert read["tree"] < 0.6 * read["rows"]


@pytest.mark.parametrize("budget", [150, 5000])
def test_padded_rows_and_trees_agree_on_values(language_model, budget):
    critic = Critic(language_model.model, "step")
    torch.nn.init.normal_(critic.head.weight, std=0.1, generator=torch.Generator().manual_seed(0))
    rows = episodes()
    expected = padded_values(critic, rows)
    assert expected[0].abs().max() > 0.5
    draws = torch.Generator().manual_seed(1)
    weights = [torch.randn(len(column), generator=draws) for column in expected]
    of_weights = gradients(critic, expected, weights)
    for packing, pack in PACKINGS.items():
        for unit, column in zip(("step", "token"), expected, strict=True):
            values = critic.values(rows, token_budget=budget, unit=unit, packing=packing)
            assert np.abs(values - column.detach().numpy()).max() < 1e-5
        packs = pack(rows, token_budget=budget)
        steps, tokens = (torch.zeros(len(column)) for column in expected)
        for pack in packs:
            steps[torch.from_numpy(pack.rows)] = critic(pack)
            tokens[torch.from_numpy(pack.tokens)] = critic(pack, "token")
        assert (gradients(critic, (steps, tokens), weights) - of_weights).norm() < 1e-6 * of_weights.norm()


@given(alike.filter(lambda rows: any(row.response_ids for row in rows)), st.integers(1, 30))
@settings(max_examples=20, deadline=None)
def test_padded_rows_and_trees_agree_on_any_rows(language_model, rows, budget):
    with torch.no_grad():
        expected = padded_statistics(language_model.model, rows)
        total = len(expected[0])
        for pack in PACKINGS.values():
            packs = pack(rows, token_budget=budget)
            actual = gathered(
                packs, lambda pack: response_log_probs(language_model.model, pack), (total, total)
            )
            for ours, theirs in zip(actual, expected, strict=True):
                assert (ours - theirs).abs().max() < 1e-5


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("constrained", [False, True])
def test_updates_are_the_same_from_rows_and_from_trees(language_model, name, constrained):
    rows = episodes(constrained)
    model = copy.deepcopy(language_model.model).double()
    valued = "token" if constrained else "step"
    batch = some_batch(model, rows, valued=valued)
    updates = []
    for packing in PACKINGS:
        policy = copy.deepcopy(model)
        critic = Critic(policy, valued)
        config = LearnerConfig(
            learning_rate=1e-3, minibatches=2, token_budget=200, packing=packing, entropy_coefficient=0.01
        )
        metrics = Learner(policy, OBJECTIVES[name], config, critic=critic).update(rows, batch, seed=5)
        updates.append((weights_of(policy), weights_of(critic), dataclasses.asdict(metrics)))
    (policy, critic, metrics), (other_policy, other_critic, other_metrics) = updates
    assert (policy - weights_of(model)).abs().max() > 1e-3
    assert (policy - other_policy).abs().max() < 1e-5
    assert (critic - other_critic).abs().max() < 1e-5
    assert metrics.pop("tokens") < other_metrics.pop("tokens")
    for field, value in metrics.items():
        if value is not None:
            assert value == pytest.approx(other_metrics[field], abs=1e-6, rel=1e-6), field
