"""Prompts that are read on from what was read before."""

from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.errors import UsageError
from agentgym.inference.engines import GenerationRequest, Sampling
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.engines.prompt_cache import BLOCK, PromptCache
from agentgym.inference.models.tiny import tiny_model, word_tokenizer
from tests.training.conftest import TEXTS
from tests.training.plain import close, forward_logprobs, mixed_requests, prompt


@contextmanager
def tokens_read(model):
    """Count the tokens, padding included, of passes of more than one token a row."""
    read = []

    def note(_, args, kwargs):
        if kwargs["input_ids"].shape[1] > 1:
            read.append(kwargs["input_ids"].numel())

    hook = model.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield read
    finally:
        hook.remove()


def one(ids, seed=0):
    return GenerationRequest(tuple(ids), None, Sampling(max_tokens=1), seed=seed)


def turns(language_model, speller, rests, context):
    """Return requests of two episodes at each of several turns, in a form of context."""
    size = len(language_model.tokenizer)
    start, past = prompt(size, 19), {}
    for turn, rest in enumerate(rests):
        asked = mixed_requests(language_model, speller, [rest, rest + 1])
        for place, request in enumerate(asked):
            before = past.get(place, ())
            own = (place % 5, turn, *request.prompt_ids)
            if context == "append":
                past[place] = (*before, *own)[:70]
                ids = (*start, *past[place])
            else:
                past[place] = own
                ids = (*start, *(before if context == "window" else ()), *own)
            asked[place] = replace(request, prompt_ids=ids)
        yield asked


@settings(max_examples=25)
@given(
    rests=st.lists(st.integers(1, 20), min_size=2, max_size=5),
    context=st.sampled_from(["append", "window", "rebuilt"]),
    tokens=st.sampled_from([BLOCK, 5 * BLOCK, 10_000]),
    batch_tokens=st.sampled_from([1, 200, 100_000]),
    beginnings=st.booleans(),
)
def test_log_probabilities_are_those_without_a_cache(
    language_model, speller, rests, context, tokens, batch_tokens, beginnings
):
    model = language_model.model
    cached = HfEngine(model, batch_tokens=batch_tokens, shared_beginnings=beginnings, prompt_cache=tokens)
    for requests in turns(language_model, speller, rests, context):
        plain = HfEngine(model, batch_tokens=batch_tokens).generate(requests)
        for request, expected, found in zip(requests, plain, cached.generate(requests), strict=True):
            assert found.ids == expected.ids
            assert close(found.logprobs, expected.logprobs, 1e-5)
            assert close(found.logprobs, forward_logprobs(model, request, found.ids))


def test_only_what_is_new_is_read(language_model):
    size, model = len(language_model.tokenizer), language_model.model
    engine, first = HfEngine(model, prompt_cache=1000), prompt(size, 50)
    with tokens_read(model) as read:
        engine.generate([one(first)])
        engine.generate([one((*first, 5, 6, 7))])
        engine.generate([one((*first[:20], 1, *first[21:]))])
    assert read == [50, 53 - 48, 50 - 16]


def test_prompts_of_one_batch_share_passes_by_what_is_new(language_model):
    size, model = len(language_model.tokenizer), language_model.model
    engine = HfEngine(model, prompt_cache=1000)
    starts = [prompt(size, length) for length in (40, 64, 90)]
    engine.generate([one(ids) for ids in starts])
    with tokens_read(model) as read:
        engine.generate([one((*ids, 3, 4)) for ids in starts])
    assert read == [3 * (90 + 2 - 80)]


def test_new_weights_empty_it():
    model, other = (tiny_model("0.1m", word_tokenizer(TEXTS), seed=seed).model for seed in (1, 2))
    engine, ids = HfEngine(model, prompt_cache=1000), prompt(20, 60)
    engine.generate([one(ids)])
    engine.sync(other.state_dict().items(), 1)
    with tokens_read(model) as read:
        (found,) = engine.generate([one(ids)])
    assert read == [60]
    assert close(found.logprobs, forward_logprobs(other, one(ids), found.ids), 1e-5)


def test_responses_that_run_into_new_weights_are_read_anew():
    model, other = (tiny_model("0.1m", word_tokenizer(TEXTS), seed=seed).model for seed in (1, 2))
    engine, ids = HfEngine(model, prompt_cache=1000), prompt(20, 60)
    engine.start(updates_in_flight=True)
    future = engine.submit(replace(one(ids), sampling=Sampling(max_tokens=40)))
    engine.sync(other.state_dict().items(), 1)
    found = future.result()
    under_new = engine.submit(one((*ids, *found.ids))).result()
    request = one((*ids, *found.ids))
    assert close(under_new.logprobs, forward_logprobs(other, request, under_new.ids), 1e-5)


# ---- the cache itself --------------------------------------------------------------------------


def states(ids, seed=0):
    """Return keys (the same as values) of one layer whose columns name the tokens and their places."""
    tokens = torch.tensor(ids, dtype=torch.float32) + torch.arange(len(ids)) / 1000 + seed
    return [tokens[None, None, :, None].repeat(1, 2, 1, 3)]


def test_the_blocks_unused_for_longest_make_room():
    cache = PromptCache(tokens=4 * BLOCK + 5)
    one, two, three = ([k] * 2 * BLOCK for k in (1, 2, 3))
    for ids in (one, two):
        cache.add([ids], states(ids), states(ids))
    assert cache.find(one) == 2 * BLOCK  # newer than two from here
    cache.add([three], states(three), states(three))
    assert [cache.find(ids) for ids in (one, two, three)] == [2 * BLOCK, 0, 2 * BLOCK]
    assert len(cache) == 4 * BLOCK
    for ids in (one, three):
        keys, values = cache.read([ids], [2 * BLOCK])[0]
        assert torch.equal(keys, states(ids)[0])
        assert torch.equal(values, states(ids)[0])


def test_the_end_of_a_prompt_goes_before_its_beginning():
    cache = PromptCache(tokens=3 * BLOCK)
    long, other = [1] * 3 * BLOCK, [2] * BLOCK
    cache.add([long], states(long), states(long))
    cache.add([other], states(other), states(other))
    assert cache.find(long) == 2 * BLOCK


def test_a_prompt_that_is_longer_than_the_cache():
    cache, ids = PromptCache(tokens=2 * BLOCK), list(range(7 * BLOCK))
    for _ in range(3):
        cache.add([ids], states(ids), states(ids))
        found = cache.find(ids)
        assert len(cache) <= 2 * BLOCK
        if found:
            assert torch.equal(cache.read([ids], [found])[0][0], states(ids)[0][:, :, :found])


def test_tokens_after_another_beginning_are_others():
    cache, ids = PromptCache(tokens=1000), [1] * BLOCK + [2] * BLOCK
    cache.add([ids], states(ids), states(ids))
    assert cache.find([2] * BLOCK) == 0
    assert cache.find([1] * BLOCK + [3] * BLOCK) == BLOCK


def test_prompts_are_read_with_padding_on_the_left():
    cache, one, two = PromptCache(tokens=1000), [1] * 2 * BLOCK, [2] * BLOCK
    columns = torch.cat([states(one)[0], torch.nn.functional.pad(states(two)[0], (0, 0, BLOCK, 0))])
    cache.add([one, two], [columns], [columns])
    keys, _ = cache.read([one, two], [20, 3])[0]
    assert keys.shape == (2, 2, 20, 3)
    assert torch.equal(keys[0], states(one)[0][0, :, :20])
    assert torch.equal(keys[1, :, 17:], states(two)[0][0, :, :3])


def test_too_few_tokens_are_one_line(language_model):
    with pytest.raises(UsageError, match="prompt_cache is 0 or at least 16 tokens, got 3"):
        HfEngine(language_model.model, prompt_cache=3)
