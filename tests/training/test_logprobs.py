import copy
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import Qwen2Config, Qwen2ForCausalLM

from agentgym.algos.loss import entropy
from agentgym.errors import UsageError
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.engines.types import GenerationRequest, Sampling
from agentgym.training.learner.logprobs import check_model, response_log_probs
from agentgym.training.learner.packing import StepRow, pack_rows
from tests.training.batches import all_log_probs

ACTIONS = ("look", "go to shelf", "go to drawer", "open fridge", "take cup from shelf")


def some_rows(count=12, vocabulary=200, seed=0):
    draws = np.random.default_rng(seed)
    sizes = draws.integers(1, 12, (count, 2))
    return [
        StepRow(*(tuple(draws.integers(0, vocabulary, size).tolist()) for size in pair)) for pair in sizes
    ]


def padded_log_probs(model, rows):
    """What the model itself says of rows padded on the right to one width, without anything chunked."""
    full = [torch.tensor([*row.prompt_ids, *row.response_ids]) for row in rows]
    ids = torch.nn.utils.rnn.pad_sequence(full, batch_first=True)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in full], batch_first=True)
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
    result = []
    for k, row in enumerate(rows):
        begin, count = len(row.prompt_ids) - 1, len(row.response_ids)
        chosen = logits[k, begin : begin + count].log_softmax(-1)
        result.append(chosen.gather(1, torch.tensor(row.response_ids)[:, None])[:, 0])
    return torch.cat(result)


@pytest.mark.parametrize("budget", [1, 40, 1000])
def test_packed_log_probs_equal_padded_ones(language_model, budget):
    rows = some_rows()
    with torch.no_grad():
        expected = padded_log_probs(language_model.model, rows).numpy()
    actual = all_log_probs(language_model.model, rows, token_budget=budget)
    assert np.abs(actual).max() > 3  # far from uniform, so that a mistake would show
    assert np.abs(actual - expected).max() < 1e-5


def test_rows_do_not_see_each_other(language_model):
    rows = some_rows()
    together = all_log_probs(language_model.model, rows, token_budget=1000)
    alone = np.concatenate([all_log_probs(language_model.model, [row], token_budget=1000) for row in rows])
    assert np.abs(together - alone).max() < 1e-5


def generations(language_model, allowed, temperature):
    prompts = [tuple(range(5, 5 + size)) for size in (3, 9, 4, 20, 4)]
    sampling = Sampling(temperature=temperature, max_tokens=12, stop_ids=language_model.stop_ids)
    requests = [GenerationRequest(ids, allowed, sampling, seed) for seed, ids in enumerate(prompts * 4)]
    return list(zip(requests, HfEngine(language_model.model).generate(requests), strict=True))


@pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0])
@pytest.mark.parametrize("constrained", [False, True])
def test_the_learner_recomputes_what_the_engine_sampled(language_model, speller, constrained, temperature):
    trie = speller.trie(ACTIONS) if constrained else None
    pairs = generations(language_model, trie, temperature)
    rows = [
        StepRow(asked.prompt_ids, said.ids, trie and trie.allowed_along(said.ids)) for asked, said in pairs
    ]
    sampled = np.array([logprob for _, said in pairs for logprob in said.logprobs])
    recomputed = all_log_probs(language_model.model, rows, token_budget=64, temperature=temperature)
    assert sampled.min() < -0.1
    assert np.abs(recomputed - sampled).max() < 1e-4


def test_probabilities_of_all_allowed_responses_sum_to_one(language_model, speller):
    trie = speller.trie(ACTIONS)
    responses = [speller.spell(action) for action in ACTIONS]
    rows = [StepRow((7, 8, 9), ids, trie.allowed_along(ids)) for ids in responses]
    log_probs = all_log_probs(language_model.model, rows, token_budget=50)
    ends = np.cumsum([len(ids) for ids in responses])
    total = sum(np.exp(part.sum()) for part in np.split(log_probs, ends[:-1]))
    assert total == pytest.approx(1.0, abs=1e-5)


def plain_head(model, pack, temperature):
    """The same numbers from all logits at once, as the model's own forward pass gives them."""
    places = torch.arange(len(pack.ends))
    seen = (places[:, None] >= places) & (places[:, None] < pack.ends)
    output = model(
        input_ids=pack.input_ids[None],
        position_ids=pack.position_ids[None],
        attention_mask=seen[None, None],
        use_cache=False,
    )
    logits = output.logits[0, pack.predictors] / temperature
    if pack.choices is not None:
        allowed = torch.zeros_like(logits, dtype=torch.bool)
        for k, choices in enumerate(pack.choices.tolist()):
            allowed[k, [token for token in choices if token >= 0]] = True
        logits = logits.masked_fill(~allowed, -torch.inf)
    chosen = logits.log_softmax(-1).gather(1, pack.targets[:, None])[:, 0]
    return chosen, entropy(logits)


def gradients(model, numbers, weights):
    model.zero_grad()
    sum((number * weight).sum() for number, weight in zip(numbers, weights, strict=True)).backward()
    return {name: weight.grad.clone() for name, weight in model.named_parameters()}


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("constrained", [True, False])
def test_chunking_changes_neither_values_nor_gradients(constrained, tied):
    config = Qwen2Config(
        vocab_size=60,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        tie_word_embeddings=tied,
        initializer_range=0.5,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Qwen2ForCausalLM(config).double()
    rows = some_rows(6, vocabulary=60)
    if constrained:
        rows = [
            StepRow(
                row.prompt_ids,
                row.response_ids,
                tuple(tuple({token, *range(k % 5)}) for k, token in enumerate(row.response_ids)),
            )
            for row in rows
        ]
    (pack,) = pack_rows(rows, token_budget=1000)
    draws = torch.Generator().manual_seed(1)
    weights = [torch.randn(len(pack.targets), generator=draws, dtype=torch.float64) for _ in range(2)]
    plain = plain_head(model, pack, 0.7)
    expected = gradients(model, plain, weights)
    for chunk_logits in (1, 60 * 7, 10**6):
        chunked = response_log_probs(model, pack, temperature=0.7, chunk_logits=chunk_logits)
        for actual, wanted in zip(chunked, plain, strict=True):
            torch.testing.assert_close(actual, wanted, rtol=0, atol=1e-12)
        for name, gradient in gradients(model, chunked, weights).items():
            torch.testing.assert_close(gradient, expected[name], rtol=1e-10, atol=1e-12)


def test_the_gradient_of_log_probs_alone_needs_no_entropy(language_model):
    model = copy.deepcopy(language_model.model)
    (pack,) = pack_rows(some_rows(3), token_budget=1000)
    alone = gradients(model, response_log_probs(model, pack)[:1], [torch.ones(1)])
    both = gradients(model, response_log_probs(model, pack), [torch.ones(1), torch.zeros(1)])
    assert all(torch.allclose(alone[name], both[name], rtol=1e-5, atol=1e-7) for name in alone)


def test_a_pack_without_responses_has_no_log_probs(language_model):
    (pack,) = pack_rows([StepRow((1, 2), ())], token_budget=8)
    log_probs, entropies = response_log_probs(language_model.model, pack)
    assert log_probs.shape == entropies.shape == (0,)


def test_models_that_packing_or_the_head_would_change_are_refused(language_model):
    check_model(language_model.model)
    scaled = copy.deepcopy(language_model.model)
    scaled.lm_head.register_forward_hook(lambda module, inputs, logits: logits / 4)
    with pytest.raises(UsageError, match="without scaled or capped logits"):
        check_model(scaled)
    eager = copy.deepcopy(language_model.model)
    eager.set_attn_implementation("eager")
    with pytest.raises(UsageError, match='attn_implementation="sdpa"'):
        check_model(eager)
    sliding = copy.deepcopy(language_model.model)
    sliding.config.layer_types = ["full_attention", "sliding_attention"]
    with pytest.raises(UsageError, match="full attention in every layer"):
        check_model(sliding)
    sliding.config.layer_types, sliding.config.sliding_window = ["full_attention"] * 2, 100
    check_model(sliding)  # a window that no layer has
    sliding.config.layer_types = None
    with pytest.raises(UsageError, match="full attention in every layer"):
        check_model(sliding)


MEMORY = """
import resource, sys, torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import Qwen2Config, Qwen2ForCausalLM
from agentgym.training.learner.logprobs import response_log_probs
from agentgym.training.learner.packing import StepRow, pack_rows
from tests.training.batches import all_log_probs
from tests.training.batches import all_log_probs

torch.set_num_threads(1)
rows, length = (int(argument) for argument in sys.argv[1:])
config = Qwen2Config(
    vocab_size=151_936, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=1,
    num_key_value_heads=1, tie_word_embeddings=True,
)
model = Qwen2ForCausalLM(config)
optimizer = torch.optim.AdamW(model.parameters())
for weight in model.parameters():
    weight.grad = torch.zeros_like(weight)
optimizer.step()
before = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
for pack in pack_rows([StepRow((1,), (k,) * length) for k in range(rows)], token_budget=4096):
    log_probs, _ = response_log_probs(model, pack)
    log_probs.mean().backward()
optimizer.step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before)
"""


def peak_bytes(rows, length):
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(rows), str(length)], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


class LargestTensor(TorchDispatchMode):
    """Notes the size of the largest tensor that anything computed."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, list | tuple) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.numbers = max(self.numbers, tensor.numel())
        return result


def test_the_logits_of_all_tokens_are_never_there_together(language_model):
    model = copy.deepcopy(language_model.model)
    (pack,) = pack_rows([StepRow((1,), tuple(range(120)))], token_budget=1000)
    logits = len(pack.targets) * model.config.vocab_size
    largest = {}
    for chunk_logits in (logits, logits // 4):
        with LargestTensor() as seen:
            sum(response_log_probs(model, pack, chunk_logits=chunk_logits)).sum().backward()
        largest[chunk_logits] = seen.numbers
    body = max(
        model.get_input_embeddings().weight.numel(), len(pack.targets) * model.config.intermediate_size
    )
    assert largest == {logits: logits, logits // 4: body}


@pytest.mark.slow
def test_an_update_of_16k_tokens_and_a_large_vocabulary_takes_less_than_2_gb():
    assert peak_bytes(64, 256) < 2e9
