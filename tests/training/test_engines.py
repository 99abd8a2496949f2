from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import MistralConfig, MistralForCausalLM

from agentgym.errors import UsageError
from agentgym.inference.engines import GenerationRequest, Sampling
from agentgym.inference.engines.choices import ROOT
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.engines.sampling import sample, uniform
from agentgym.inference.models.tiny import tiny_model
from tests.training.plain import ACTIONS, close, forward_logprobs, mixed_requests, prompt


@pytest.fixture
def engine(language_model):
    return HfEngine(language_model.model)


@pytest.fixture(scope="module")
def trie(speller):
    return speller.trie(ACTIONS)


@settings(max_examples=30)
@given(
    lengths=st.lists(st.integers(1, 90), min_size=1, max_size=8),
    batch_tokens=st.sampled_from([1, 200, 700, 100_000]),
)
def test_log_probabilities_are_those_of_a_plain_forward_pass(language_model, speller, lengths, batch_tokens):
    requests = mixed_requests(language_model, speller, lengths, temperature=1.3)
    engine = HfEngine(language_model.model, batch_tokens=batch_tokens)
    for request, generation in zip(requests, engine.generate(requests), strict=True):
        expected = forward_logprobs(language_model.model, request, generation.ids)
        assert close(generation.logprobs, expected)


@settings(max_examples=30)
@given(
    lengths=st.lists(st.integers(1, 90), min_size=1, max_size=6),
    batch_tokens=st.sampled_from([1, 200, 700, 100_000]),
    order=st.randoms(use_true_random=False),
)
def test_a_response_does_not_depend_on_what_it_is_batched_with(
    language_model, speller, lengths, batch_tokens, order
):
    requests = mixed_requests(language_model, speller, lengths)
    alone = [HfEngine(language_model.model).generate([request])[0] for request in requests]
    places = list(range(len(requests)))
    order.shuffle(places)
    together = HfEngine(language_model.model, batch_tokens=batch_tokens).generate(
        [requests[k] for k in places]
    )
    for place, generation in zip(places, together, strict=True):
        assert generation.ids == alone[place].ids
        assert generation.finish == alone[place].finish
        assert close(generation.logprobs, alone[place].logprobs, 1e-5)


@settings(max_examples=20)
@given(same=st.integers(0, 60), rests=st.lists(st.integers(1, 25), min_size=1, max_size=6))
def test_what_prompts_begin_with_is_read_once(language_model, speller, same, rests):
    size, read = len(language_model.tokenizer), []
    beginning = prompt(size, same) if same else ()
    requests = [
        replace(request, prompt_ids=(*beginning, *request.prompt_ids))
        for request in mixed_requests(language_model, speller, rests)
    ]
    engine = HfEngine(language_model.model, shared_beginnings=True)
    hook = language_model.model.register_forward_pre_hook(
        lambda _, args, kwargs: read.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    try:
        generations = engine.generate(requests)
    finally:
        hook.remove()
    for request, generation in zip(requests, generations, strict=True):
        expected = forward_logprobs(language_model.model, request, generation.ids)
        assert close(generation.logprobs, expected)
    if same >= 32 and len(set(rests)) > 1:
        assert read[0] >= same
        assert read[1] <= len(set(rests)) * max(rests)


def test_long_responses_outgrow_the_buffers(language_model, speller, engine):
    size = len(language_model.tokenizer)
    requests = [
        GenerationRequest(prompt(size, length), None, Sampling(max_tokens=128 - length - 3 * k), seed=k)
        for k, length in enumerate((4, 11, 4, 30))
    ]
    requests.append(GenerationRequest(prompt(size, 8), speller.trie(ACTIONS), Sampling(), seed=9))
    for request, generation in zip(requests, engine.generate(requests), strict=True):
        assert request.allowed is not None or len(generation.ids) == request.sampling.max_tokens
        expected = forward_logprobs(language_model.model, request, generation.ids)
        assert close(generation.logprobs, expected)


def test_choices_of_equal_lengths_need_no_padding(language_model, speller, engine):
    size = len(language_model.tokenizer)
    choice = speller.trie(("go to shelf 1", "go to drawer 2", "take cup from", "open fridge 2 now"))
    requests = [GenerationRequest(prompt(size, 20, k), choice, Sampling(), seed=k) for k in range(12)]
    generations = engine.generate(requests)
    assert len({generation.ids for generation in generations}) > 2
    for request, generation in zip(requests, generations, strict=True):
        assert close(generation.logprobs, forward_logprobs(language_model.model, request, generation.ids))


def test_greedy_responses_are_those_of_transformers(language_model, engine):
    size = len(language_model.tokenizer)
    for length in (3, 40):
        ids = prompt(size, length)
        sampling = Sampling(temperature=0.0, max_tokens=12)
        (generation,) = engine.generate([GenerationRequest(ids, None, sampling, seed=0)])
        inputs = torch.tensor([ids])
        expected = language_model.model.generate(
            input_ids=inputs,
            attention_mask=torch.ones_like(inputs),
            do_sample=False,
            min_new_tokens=12,
            max_new_tokens=12,
            eos_token_id=None,
        )
        assert generation.ids == tuple(expected[0, length:].tolist())


def test_a_group_s_prompt_is_read_once(language_model, engine):
    read = []
    hook = language_model.model.get_input_embeddings().register_forward_hook(
        lambda module, inputs, output: read.append(inputs[0].numel())
    )
    ids = prompt(len(language_model.tokenizer), 50)
    sampling = Sampling(max_tokens=3)
    engine.generate([GenerationRequest(ids, None, sampling, seed=seed) for seed in range(8)])
    hook.remove()
    assert read == [50, 8, 8]


def test_finished_rows_leave_the_batch(language_model, engine):
    rows = []
    hook = language_model.model.get_input_embeddings().register_forward_hook(
        lambda module, inputs, output: rows.append(len(inputs[0]))
    )
    ids = [prompt(len(language_model.tokenizer), 20, seed) for seed in range(4)]
    engine.generate(
        [GenerationRequest(ids[k], None, Sampling(max_tokens=1 + 2 * k), seed=k) for k in range(4)]
    )
    hook.remove()
    assert rows == [4, 3, 3, 2, 2, 1, 1]


def test_tokens_without_an_alternative_need_no_pass(language_model, speller, engine):
    passes = []
    hook = language_model.model.register_forward_hook(lambda *_: passes.append(1))
    ids = prompt(len(language_model.tokenizer), 20)
    only = GenerationRequest(ids, speller.trie(("go to shelf 1",)), Sampling(), seed=0)
    (generation,) = engine.generate([only])
    assert passes == []
    assert generation.ids == speller.spell("go to shelf 1")
    assert set(generation.logprobs) == {0.0}
    assert generation.finish == "choice"
    two = GenerationRequest(ids, speller.trie(("go to shelf 1", "look")), Sampling(), seed=0)
    engine.generate([two])
    hook.remove()
    assert passes == [1]


def test_choices_are_admissible_and_their_probabilities_sum_to_one(language_model, engine, trie):
    ids = prompt(len(language_model.tokenizer), 30)
    seeds = range(600)
    requests = [GenerationRequest(ids, trie, Sampling(temperature=3.0), seed=seed) for seed in seeds]
    probability = {}
    counts = dict.fromkeys(ACTIONS, 0)
    for generation in engine.generate(requests):
        action = trie.action(generation.ids)
        counts[action] += 1
        probability[action] = torch.tensor(generation.logprobs, dtype=torch.float64).sum().exp().item()
    for action in set(ACTIONS) - set(probability):  # too unlikely to be drawn
        walk = [said for said in walks(trie) if trie.action(said) == action]
        probability[action] = sum(
            torch.tensor(forward_logprobs(language_model.model, requests[0], said)).sum().exp().item()
            for said in walk
        )
    assert sum(probability.values()) == pytest.approx(1.0, abs=1e-5)
    expected = {action: len(seeds) * share for action, share in probability.items()}
    common = [action for action in ACTIONS if expected[action] >= 5]
    assert len(common) >= 3
    statistic = sum((counts[action] - expected[action]) ** 2 / expected[action] for action in common)
    assert statistic < 22.5  # p = 0.001 at 6 degrees


def walks(trie, node=ROOT, said=()):
    """Yield every response that the trie allows."""
    if not trie.allowed(node):
        yield said
    for token in trie.allowed(node):
        yield from walks(trie, trie.child(node, token), (*said, token))


def test_sampling_leaves_the_model_and_the_generators_alone(language_model, engine):
    model = language_model.model
    before = torch.random.get_rng_state()
    model.train()
    request = GenerationRequest(
        prompt(len(language_model.tokenizer), 9), None, Sampling(max_tokens=2), seed=0
    )
    (generation,) = engine.generate([request])
    assert model.training
    assert all(module.training for module in model.modules())
    model.eval()
    assert engine.generate([request]) == [generation]
    assert torch.equal(torch.random.get_rng_state(), before)
    model(torch.tensor([request.prompt_ids])).logits.sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())
    model.zero_grad()


def test_weights_that_are_taken_over_are_leaves_as_before(language_model):
    old, new = (tiny_model("0.1m", language_model.tokenizer, seed=seed).model for seed in (1, 2))
    HfEngine(old).sync(new.named_parameters(), version=5)
    assert all(weight.requires_grad and weight.is_leaf for weight in old.parameters())


def test_a_model_that_diverged_is_an_error(language_model):
    model = tiny_model("0.1m", language_model.tokenizer).model
    with torch.no_grad():
        model.model.norm.weight[0] = torch.nan
    with pytest.raises(UsageError, match="not numbers: go back to a checkpoint"):
        HfEngine(model).generate([GenerationRequest((1, 2), None, Sampling(), seed=0)])


def test_a_sampler_that_leaves_nothing_to_draw_is_an_error_that_names_it(language_model):
    engine = HfEngine(language_model.model, sampler=lambda logits: torch.full_like(logits, -torch.inf))
    with pytest.raises(UsageError, match=r"rollout\.sampler returns NaN, or leaves nothing"):
        engine.generate([GenerationRequest((1, 2), None, Sampling(), seed=0)])


def test_models_with_windows_are_refused():
    config = MistralConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        sliding_window=8,
    )
    with pytest.raises(UsageError, match="choose one with full attention in every layer"):
        HfEngine(MistralForCausalLM(config))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -0.1}, "temperature must be a number of at least 0"),
        ({"temperature": float("nan")}, "temperature must be a number of at least 0"),
        ({"max_tokens": 0}, "max_tokens must be a whole number of at least 1"),
    ],
)
def test_impossible_sampling_is_refused(options, message):
    with pytest.raises(UsageError, match=message):
        Sampling(**options)


def test_a_batch_holds_something(language_model):
    with pytest.raises(UsageError, match="batch_tokens must be at least 1"):
        HfEngine(language_model.model, batch_tokens=0)


def test_draws_follow_the_distribution():
    logits = torch.tensor([[0.0, 1.0, -torch.inf, 2.0, -50.0]])
    n = 20_000
    uniforms = torch.tensor([uniform(seed, 3) for seed in range(n)], dtype=torch.float64)
    columns, logprobs = sample(logits.expand(n, -1), torch.full((n,), 2.0), uniforms)
    shares = (logits / 2).softmax(-1)[0]
    counts = columns.bincount(minlength=5)
    assert counts[2] == counts[4] == 0
    likely = [0, 1, 3]
    assert sum((counts[k] - n * shares[k]) ** 2 / (n * shares[k]) for k in likely) < 13.9  # p = 0.001
    assert torch.equal(logprobs, (logits / 2).log_softmax(-1)[0][columns])


@pytest.mark.parametrize("number", [0.0, 0.5, 1 - 2**-53])
def test_a_draw_at_an_edge_has_mass(number):
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]])
    columns, logprobs = sample(logits, torch.ones(1), torch.tensor([number], dtype=torch.float64))
    assert columns.item() == (1 if number < 0.5 else 3)
    assert logprobs.item() == pytest.approx(-0.6931472)


def test_greedy_takes_the_likeliest_and_reports_its_probability():
    columns, logprobs = sample(
        torch.tensor([[0.0, 1.0]]), torch.zeros(1), torch.zeros(1, dtype=torch.float64)
    )
    assert columns.item() == 1
    assert logprobs.item() == pytest.approx(-0.3132617)


def test_uniform_numbers_are_below_one_and_differ():
    numbers = [uniform(seed, position) for seed, position in product(range(100), range(100))]
    assert 0 <= min(numbers) < 0.001
    assert 0.999 < max(numbers) < 1
    assert len(set(numbers)) == len(numbers)
