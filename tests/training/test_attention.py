import copy
import inspect

import numpy as np
import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.attention.varlen import varlen_attn
from transformers import Qwen2Config, Qwen2ForCausalLM

from agentgym.algos.objective import Objective
from agentgym.errors import UsageError
from agentgym.training.learner import attention
from agentgym.training.learner.attention import (
    BLOCK,
    NAME,
    Blocks,
    _block_mask,
    attend,
    attend_in_packs,
    pack_mask,
)
from agentgym.training.learner.config import LearnerConfig
from agentgym.training.learner.logprobs import check_model, hidden_states
from agentgym.training.learner.packing import StepRow, pack_rows
from agentgym.training.learner.tree import pack_tree
from agentgym.training.learner.update import Learner


def some_pack(pack):
    """Return a pack of several blocks, with rows and shared beginnings that go on from block to block."""
    draws = np.random.default_rng(0)
    first = tuple(draws.integers(0, 90, BLOCK + 50).tolist())
    rows = [
        StepRow((*first[:shared], *draws.integers(0, 90, size).tolist()), (1, 2))
        for shared in (0, 20, BLOCK + 40)
        for size in (1, BLOCK - 3, 2 * BLOCK + 5)
    ]
    (made,) = pack(rows, token_budget=10**6)
    return made


def dense(ends):
    places = torch.arange(len(ends))
    return (places[:, None] >= places) & (places[:, None] < ends)


@pytest.mark.parametrize("pack", [pack_rows, pack_tree])
def test_blocks_attend_as_the_whole_mask_does(pack):
    ends = some_pack(pack).ends
    draws = torch.Generator().manual_seed(0)
    states = [
        torch.randn(1, heads, len(ends), 16, generator=draws, requires_grad=True) for heads in (4, 2, 2)
    ]
    plain = torch.nn.functional.scaled_dot_product_attention(
        *states, attn_mask=dense(ends), scale=0.3, enable_gqa=True
    ).transpose(1, 2)
    output, weights = attend(
        torch.nn.Module(), *states, None, pack_mask=pack_mask(ends), scaling=0.3, dropout=0.0
    )
    assert weights is None
    torch.testing.assert_close(output, plain, rtol=0, atol=1e-6)
    seed = torch.randn(output.shape, generator=draws)
    for ours, theirs in zip(*(torch.autograd.grad(x, states, seed) for x in (output, plain)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def test_blocks_meet_few_keys():
    size = 50 * BLOCK
    ends = (torch.arange(size) // 200 + 1) * 200  # rows of 200 tokens
    seen = pack_mask(ends)
    assert isinstance(seen, Blocks)
    assert max(mask.shape[1] for mask in seen.seen) < 200 + BLOCK
    assert sum(mask.numel() for mask in seen.seen) < size * (200 + BLOCK)
    assert sum(int(mask.sum()) for mask in seen.seen) == size * 201 // 2


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("pack", [pack_rows, pack_tree])
def test_the_mask_for_other_devices_shows_the_same(pack):
    ends = some_pack(pack).ends
    draws = torch.Generator().manual_seed(0)
    states = [torch.randn(1, heads, len(ends), 16, generator=draws) for heads in (4, 2, 2)]
    output, _ = attend(torch.nn.Module(), *states, None, pack_mask=pack_mask(ends), scaling=0.3)
    mask = _block_mask(ends)
    flexible = flex_attention(*states, block_mask=mask, scale=0.3, enable_gqa=True)
    torch.testing.assert_close(flexible.transpose(1, 2), output, rtol=0, atol=1e-6)
    assert mask.sparsity() > 20  # per cent of the blocks that nobody computes


def test_outside_of_packs_a_model_attends_as_before(language_model):
    before = copy.deepcopy(language_model.model)
    before.set_attn_implementation("sdpa")
    model = copy.deepcopy(before)
    attend_in_packs(model)
    assert model.config._attn_implementation == model.model.config._attn_implementation == NAME
    ids = torch.randint(0, 90, (3, 20), generator=torch.Generator().manual_seed(0))
    padding = torch.ones_like(ids)
    padding[1, :7] = 0
    for mask in (None, padding):
        with torch.no_grad():
            ours, theirs = (each(input_ids=ids, attention_mask=mask).logits for each in (model, before))
        assert torch.equal(ours, theirs)
    assert "agentgym" not in str(model.config.to_dict())


def test_models_that_do_not_attend_as_they_are_told_are_refused(language_model):
    eager = copy.deepcopy(language_model.model)
    eager.set_attn_implementation("eager")
    (pack,) = pack_rows([StepRow((1, 2), (3,))], token_budget=9)
    with pytest.raises(UsageError, match="attention with 'eager'"):
        hidden_states(eager.base_model, pack)

    class Deaf(Qwen2ForCausalLM):
        def __init__(self, config):
            super().__init__(config)
            for layer in self.model.layers:
                layer.self_attn.register_forward_pre_hook(self._drop, with_kwargs=True)

        @staticmethod
        def _drop(module, inputs, settings):
            return inputs, {name: value for name, value in settings.items() if name != "pack_mask"}

    config = Qwen2Config(
        vocab_size=60,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        initializer_range=0.5,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        hearing, deaf = Qwen2ForCausalLM(config), Deaf(config)
    check_model(hearing)
    with pytest.raises(UsageError, match="does not attend as it is told to"):
        check_model(deaf)


@pytest.mark.parametrize("size", [5, 128, 129, 300])
@pytest.mark.parametrize("seed", range(2))
def test_the_mask_of_blocks_is_that_of_all_pairs(size, seed):
    """What is made from the ends of blocks is what FlexAttention makes from S x S."""
    draws, ends, open_ends = np.random.default_rng(seed), torch.zeros(size, dtype=torch.long), [(0, size)]
    while open_ends:
        begin, end = open_ends.pop()
        while begin < end:
            ends[begin] = own = int(draws.integers(begin + 1, end + 1))
            open_ends.append((begin + 1, own))
            begin = own

    def sees(_batch, _head, query, key):
        return (query >= key) & (query < ends[key])

    expected, mask = create_block_mask(sees, None, None, size, size, device="cpu"), _block_mask(ends)
    assert torch.equal(mask.to_dense(), expected.to_dense())
    for kind in ("kv", "full_kv"):
        counts = getattr(expected, f"{kind}_num_blocks")
        assert torch.equal(getattr(mask, f"{kind}_num_blocks"), counts)
        ours, theirs = (getattr(each, f"{kind}_indices")[0, 0] for each in (mask, expected))
        for row, count in enumerate(counts[0, 0].tolist()):
            assert torch.equal(ours[row, :count], theirs[row, :count])


def test_rows_that_share_nothing_are_read_alike_by_flash_attention(language_model, monkeypatch):
    calls = []

    def stand_in(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, window_size, **settings):
        """Of a kernel that there is on GPUs alone: each row by SDPA."""
        inspect.signature(varlen_attn).bind(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, **settings)
        assert cu_seq_q is cu_seq_k
        assert cu_seq_q.dtype == torch.int32
        assert window_size == (-1, 0)
        sizes = cu_seq_q.diff().tolist()
        assert max_q == max_k == max(sizes)
        calls.append(sizes)
        parts = (states.transpose(0, 1).split(sizes, dim=1) for states in (query, key, value))
        rows = [
            torch.nn.functional.scaled_dot_product_attention(*row, is_causal=True, **settings)
            for row in zip(*parts, strict=True)
        ]
        return torch.cat(rows, dim=1).transpose(0, 1)

    monkeypatch.setattr(attention, "varlen_attn", stand_in)
    model = copy.deepcopy(language_model.model)
    pack = some_pack(pack_rows)
    expected = hidden_states(model.base_model, pack)
    assert not calls
    attend_in_packs(model, flash=True)
    states = hidden_states(model.base_model, pack)
    sizes = pack.row_bounds.diff().tolist()
    assert sum(sizes) == len(pack.input_ids)
    assert len(sizes) == len(pack.rows)
    assert calls == [sizes] * model.config.num_hidden_layers
    torch.testing.assert_close(states, expected, rtol=0, atol=1e-5)
    weight = model.get_input_embeddings().weight
    ours, theirs = (torch.autograd.grad(each.square().sum(), weight)[0] for each in (states, expected))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-2)


def test_flash_attention_is_refused_where_it_cannot_be(language_model):
    for settings in ({}, {"packing": "rows", "dtype": "float32"}):
        with pytest.raises(UsageError, match="needs packing=rows and bfloat16"):
            LearnerConfig(attention="flash", **settings)
    flash = LearnerConfig(attention="flash", packing="rows", dtype="bfloat16")
    with pytest.raises(UsageError, match="needs a GPU: set it to auto"):
        Learner(copy.deepcopy(language_model.model), Objective(), flash)
