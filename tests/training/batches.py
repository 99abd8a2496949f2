"""Rows of steps and batches of them, for tests of learning."""

import numpy as np
import torch

from agentgym.algos.objective import Objective
from agentgym.algos.tokens import Batch
from agentgym.training.learner.logprobs import response_log_probs
from agentgym.training.learner.packing import StepRow
from agentgym.training.learner.tree import PACKINGS

OBJECTIVES = {
    "token": Objective(dual_clip=3.0),
    "response": Objective(aggregation="seq-mean-token-mean", kl_coefficient=0.1),
    "sequence": Objective(ratio="sequence", aggregation="seq-mean-token-mean"),
    "step": Objective(ratio="step_geomean", aggregation="trajectory-mean", kl_coefficient=0.1),
}


def all_log_probs(model, rows, *, token_budget, temperature=1.0, packing="tree"):
    """Return (T,) the log-probabilities of all response tokens, in the rows' order."""
    result = np.zeros(sum(len(row.response_ids) for row in rows))
    with torch.inference_mode():
        for pack in PACKINGS[packing](rows, token_budget=token_budget, device=model.device):
            log_probs, _ = response_log_probs(model, pack, temperature=temperature)
            result[pack.tokens] = log_probs.double().cpu().numpy()
    return result


def some_rows(count=10, seed=0):
    draws = np.random.default_rng(seed)
    sizes = draws.integers(1, 10, (count, 2))
    rows = [StepRow(*(tuple(draws.integers(0, 200, size).tolist()) for size in pair)) for pair in sizes]
    return [*rows, StepRow((3, 4), ())]


def some_batch(model, rows, seed=1, valued="step", **columns):
    """Sampled by a policy and compared with a reference that differ a little from the model."""
    draws = np.random.default_rng(seed)
    lengths = np.array([len(row.response_ids) for row in rows], dtype=np.int64)
    now = all_log_probs(model, rows, token_budget=500)
    count = len(rows) if valued == "step" else len(now)
    given = {
        "credit": "step",
        "advantages": draws.normal(size=len(rows)),
        "old_log_probs": now + 0.2 * draws.normal(size=len(now)),
        "ref_log_probs": now + 0.2 * draws.normal(size=len(now)),
        "mask": draws.random(len(now)) < 0.8,
        "valued": valued,
        "values": draws.normal(size=count),
        "returns": draws.normal(size=count),
    }
    trajectory = np.sort(draws.integers(0, 4, len(rows)))
    return Batch(lengths=lengths, trajectory=trajectory, **{**given, **columns})


def weights_of(module):
    return torch.cat([weight.detach().flatten() for weight in module.parameters()])
