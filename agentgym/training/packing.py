"""Step rows laid end to end without padding, each one blind to the others.

A row is what one call of the model read and said. Packed rows share one forward pass of the model: the
attention mask is causal and block-diagonal, and positions start anew with each row, so every token sees
what it saw when it was sampled. The last response token is left out, since nothing follows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from agentgym.algos.batch import Floats, Ints
from agentgym.training.choices import ActionSpeller
from agentgym.types import Group, UsageError

NO_CHOICE = -1
"""Fills up the allowed tokens of a position that has fewer than another."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """The tokens of one step, exactly as sampled."""

    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    choices: tuple[tuple[int, ...], ...] | None = None
    """For each response token, the tokens it was chosen from; None for a free generation."""

    def __post_init__(self) -> None:
        """Refuse a response that nothing precedes, or that was not chosen from its choices.

        Raises:
            UsageError: says which.
        """
        if self.response_ids and not self.prompt_ids:
            raise UsageError("a response follows an empty prompt: give at least one prompt token")
        if self.choices is not None and (
            len(self.choices) != len(self.response_ids)
            or any(
                token not in allowed for token, allowed in zip(self.response_ids, self.choices, strict=True)
            )
        ):
            raise UsageError("choices must hold, for each response token, the tokens it was chosen from")

    def __len__(self) -> int:
        """Number of tokens that the model has to read."""
        return len(self.prompt_ids) + max(len(self.response_ids) - 1, 0)


def step_rows(groups: Sequence[Group], speller: ActionSpeller | None = None) -> list[StepRow]:
    """Return the rows of rollouts, in the order of `agentgym.algos.batch.StepBatch.from_groups`.

    Args:
        groups: rollouts of a language model.
        speller: the policy's own, where responses were constrained choices.

    Raises:
        UsageError: a response is none of its step's admissible actions.
    """
    rows = []
    for group in groups:
        for trajectory in group.trajectories:
            for step in trajectory.steps:
                prompt, response = step.completion.prompt_ids, step.completion.response_ids
                choices = None
                if speller is not None and response:
                    try:
                        choices = speller.trie(step.admissible_actions).allowed_along(response)
                    except ValueError as error:
                        raise UsageError(f"{error}: give the speller that sampled them, or none") from error
                rows.append(StepRow(prompt, response, choices))
    return rows


def sampled_log_probs(groups: Sequence[Group]) -> Floats:
    """Return (T,) the log-probabilities that responses were sampled with, in the order of `step_rows`."""
    return np.array(
        [
            logprob
            for group in groups
            for trajectory in group.trajectories
            for step in trajectory.steps
            for logprob in step.completion.logprobs
        ],
        dtype=np.float64,
    )


@dataclass(frozen=True, slots=True)
class Pack:
    """r rows as one sequence of S tokens, R of which predict a response token.

    Example:
        >>> pack, = pack_rows([StepRow((5, 6), (7, 8)), StepRow((5,), (9,))], token_budget=8)
        >>> pack.input_ids.tolist(), pack.position_ids.tolist()
        ([5, 6, 7, 5], [0, 1, 2, 0])
        >>> pack.predictors.tolist(), pack.targets.tolist(), pack.tokens.tolist()
        ([1, 2, 3], [7, 8, 9], [0, 1, 2])
    """

    rows: Ints
    """(r,) which rows, in the order they lie."""
    tokens: Ints
    """(R,) where each response token is among those of all rows, packed in the rows' own order."""
    input_ids: Tensor
    """(S,)."""
    position_ids: Tensor
    """(S,) from 0 in each row."""
    segments: Tensor
    """(S,) row within the pack that each token belongs to."""
    predictors: Tensor
    """(R,) position of the token before each response token: its hidden state predicts that one."""
    targets: Tensor
    """(R,) the response tokens."""
    choices: Tensor | None
    """(R, k) the tokens each was chosen from, filled up with `NO_CHOICE`; None for free generations."""
    prompt_ends: Tensor
    """(r,) position of the last prompt token of each row."""

    def attention_mask(self, dtype: torch.dtype) -> Tensor:
        """Return (S, S), added to attention scores: 0 where a token sees another, else -inf."""
        places = torch.arange(len(self.segments), device=self.segments.device)
        seen = (self.segments[:, None] == self.segments[None, :]) & (places[:, None] >= places[None, :])
        return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, -torch.inf)


def pack_rows(
    rows: Sequence[StepRow], *, token_budget: int, device: torch.device | str = "cpu"
) -> list[Pack]:
    """Pack rows, the longest first, each into the first pack that has room.

    Every response token is in exactly one pack. A row without any token is in none.

    Args:
        rows: any number, all of constrained or all of free responses.
        token_budget: most tokens of a pack; a row that is longer has one of its own.
        device: where tensors go.

    Raises:
        UsageError: the budget is below 1, or constrained and free responses are mixed.
    """
    if token_budget < 1:
        raise UsageError(f"token_budget must be at least 1, got {token_budget}")
    if len({row.choices is None for row in rows if row.response_ids}) > 1:
        raise UsageError("some responses are constrained and others free: give a learner one kind at a time")
    sizes = np.array([len(row) for row in rows], dtype=np.int64)
    lengths = np.array([len(row.response_ids) for row in rows], dtype=np.int64)
    begins = np.cumsum(lengths) - lengths
    return [_pack(rows, members, begins, torch.device(device)) for members in _first_fit(sizes, token_budget)]


def _first_fit(sizes: Ints, budget: int) -> list[list[int]]:
    """Return which rows share a pack; equal sizes keep their order."""
    packs: list[list[int]] = []
    room: list[int] = []
    for row in np.argsort(-sizes, kind="stable").tolist():
        size = int(sizes[row])
        if size == 0:
            break
        place = next((k for k, left in enumerate(room) if size <= left), None)
        if place is None:
            packs.append([row])
            room.append(budget - size)
        else:
            packs[place].append(row)
            room[place] -= size
    return packs


def _pack(rows: Sequence[StepRow], members: list[int], begins: Ints, device: torch.device) -> Pack:
    ids: list[int] = []
    positions: list[int] = []
    predictors: list[int] = []
    prompt_ends: list[int] = []
    tokens: list[int] = []
    for member in members:
        row = rows[member]
        prompt_ends.append(len(ids) + len(row.prompt_ids) - 1)
        count = len(row.response_ids)
        predictors.extend(range(prompt_ends[-1], prompt_ends[-1] + count))
        tokens.extend(range(begins[member], begins[member] + count))
        ids.extend((*row.prompt_ids, *row.response_ids[:-1]))
        positions.extend(range(len(row)))
    targets = [token for member in members for token in rows[member].response_ids]
    choices = [allowed for member in members for allowed in rows[member].choices or ()]
    sizes = torch.tensor([len(rows[member]) for member in members], device=device)

    def tensor(values: Sequence[object]) -> Tensor:
        return torch.tensor(values, dtype=torch.long, device=device)

    width = max(map(len, choices), default=0)
    return Pack(
        rows=np.array(members, dtype=np.int64),
        tokens=np.array(tokens, dtype=np.int64),
        input_ids=tensor(ids),
        position_ids=tensor(positions),
        segments=torch.repeat_interleave(torch.arange(len(members), device=device), sizes),
        predictors=tensor(predictors),
        targets=tensor(targets),
        choices=tensor([[*allowed, *[NO_CHOICE] * (width - len(allowed))] for allowed in choices])
        if choices
        else None,
        prompt_ends=tensor(prompt_ends),
    )
