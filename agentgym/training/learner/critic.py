"""A critic: the body of a language model with one number on top."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from agentgym.algos.tokens import Batch, Unit
from agentgym.core.arrays import Floats
from agentgym.training.learner.config import Packing
from agentgym.training.learner.distributed import Ranks, reshard
from agentgym.training.learner.logprobs import hidden_states
from agentgym.training.learner.packing import Pack, StepRow
from agentgym.training.learner.tree import own_packs


class Critic(torch.nn.Module):
    """Values what a language model reads: every value is 0 before it has learned anything.

    A step is valued at the last token of its prompt, a response token at the token before it.
    """

    def __init__(self, model: PreTrainedModel, unit: Unit):
        """Copy a model's body, on the meta device too; ``unit`` is that of `Algorithm.critic`."""
        super().__init__()
        self.unit = unit
        body = copy.deepcopy(model.base_model)
        assert isinstance(body, PreTrainedModel)
        self.body = body.train(False)
        size = model.config.get_text_config().hidden_size
        dtype = torch.promote_types(model.dtype, torch.float32)
        device = torch.device("cpu") if model.device.type == "meta" else model.device
        self.head = torch.nn.Linear(size, 1, device=device, dtype=dtype)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)

    def forward(self, pack: Pack, unit: Unit | None = None) -> Tensor:
        """Return (r,) values of the pack's steps, or (R,) of its response tokens; by default as it learns."""
        positions = pack.prompt_ends if (unit or self.unit) == "step" else pack.predictors
        states = hidden_states(self.body, pack)[positions]
        values: Tensor = self.head(states.to(self.head.weight.dtype))
        return values.sum(1)  # a sum over one number, since sharded modules must not return views

    def values(
        self,
        rows: Sequence[StepRow],
        *,
        token_budget: int,
        unit: Unit | None = None,
        ranks: Ranks | None = None,
        packing: Packing = "tree",
        device: torch.device | None = None,
    ) -> Floats:
        """Return (n,) values of steps or (T,) of their response tokens, without a gradient.

        What follows a truncated episode is worth the "step" of a row that only has the next prompt.

        A step without any token is worth 0. At most ``token_budget`` tokens are read at once; ``packing``:
        whether shared beginnings of rows are read once.
        """
        unit, ranks = unit or self.unit, ranks or Ranks()
        total = len(rows) if unit == "step" else sum(len(row.response_ids) for row in rows)
        result = np.zeros(total)
        device = device or self.head.weight.device
        packs = own_packs(rows, token_budget=token_budget, ranks=ranks, packing=packing, device=device)
        with torch.no_grad():
            found = [(pack, self(pack, unit), counts) for pack, counts in packs]
        for pack, values, counts in found:
            if counts:
                result[pack.rows if unit == "step" else pack.tokens] = values.double().cpu().numpy()
        reshard(self)
        return ranks.total(result)


def explained_variance(batch: Batch) -> float | None:
    """Return ``1 - Var(returns - values) / Var(returns)``; None where returns are missing or do not vary."""
    if batch.values is None or batch.returns is None or len(batch.returns) == 0:
        return None
    spread = float(batch.returns.var())
    return None if spread == 0 else 1.0 - float((batch.returns - batch.values).var()) / spread
