"""Sequence packing: step rows laid out without padding, masked from each other.

A row is what one call of the model read and said. Packed rows share one forward pass of the model: each
token sees its own row up to itself, and positions start anew with each row, so every token sees what it
saw when it was sampled. The last response token is left out, since nothing follows it.

Rows that begin alike may share their first tokens (`agentgym.training.learner.tree`): what a token sees is
the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from agentgym.core.arrays import Bools, Floats, Ints
from agentgym.core.types import Completion, Group, Request, Step
from agentgym.errors import UsageError
from agentgym.inference.engines.choices import ActionSpeller
from agentgym.inference.models.pictures import Picture, PicturePrompt, PictureReader

Layout: TypeAlias = tuple[Sequence[int], Sequence[int]]
"""Rows of a pack, with the number of first tokens that each shares with the row before it; 0 for the first.
Shared tokens make a trie: what a row shares with any earlier one it shares with all between."""

NO_CHOICE = -1
"""Filler for positions with fewer allowed tokens than another."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """The tokens of one step, exactly as sampled."""

    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    choices: tuple[tuple[int, ...], ...] | None = None
    """Allowed tokens at each response token; None for a free generation."""
    shown: PicturePrompt | None = None
    """Pictures among the prompt's tokens; None for none."""

    def __post_init__(self) -> None:
        """Refuse an empty prompt, or a response outside its choices."""
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

    @property
    def read_ids(self) -> Ints:
        """The tokens that the model has to read."""
        return np.array(self.prompt_ids + self.response_ids[:-1], dtype=np.int64)

    def ids_with_pictures(self, numbers: Mapping[Picture, int]) -> Ints:
        """Return `read_ids` with each picture's number in the place of its tokens."""
        ids = self.read_ids
        if self.shown is not None:
            for picture, start in zip(self.shown.pictures, self.shown.starts, strict=True):
                ids[start : start + picture.tokens] = numbers[picture]
        return ids

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures among the prompt's tokens."""
        return () if self.shown is None else self.shown.pictures

    @property
    def positions(self) -> Ints:
        """Positions of the tokens to read: (len,), or (3, len) where pictures are among them."""
        if self.shown is None:
            return np.arange(len(self))
        after = self.shown.following + np.arange(len(self) - len(self.prompt_ids))
        return np.concatenate([self.shown.positions, np.broadcast_to(after, (3, len(after)))], axis=1)


def step_rows(
    groups: Sequence[Group], speller: ActionSpeller | None = None, reader: PictureReader | None = None
) -> list[StepRow]:
    """Return the rows of rollouts, in the order of `agentgym.algos.batch.StepBatch.from_groups`.

    ``speller``: the policy's own, where responses were constrained choices; ``reader``: of the model's
    pictures.
    """
    return [step_row(step.completion, step, speller, reader) for step in _steps(groups)]


def _steps(groups: Sequence[Group]) -> Iterator[Step]:
    for group in groups:
        for trajectory in group.trajectories:
            yield from trajectory.steps


def step_row(
    completion: Completion,
    source: Step | Request,
    speller: ActionSpeller | None = None,
    reader: PictureReader | None = None,
) -> StepRow:
    """Return the row of a completion with its tokens; other arguments as `step_rows`."""
    prompt, response = completion.prompt_ids, completion.response_ids
    choices = None
    if speller is not None and response:
        try:
            choices = speller.trie(source.admissible_actions).allowed_along(response)
        except ValueError as error:
            raise UsageError(f"{error}: give the speller that sampled them, or none") from error
    picture = None if reader is None else reader.of(source.observation)
    shown = None
    if reader is not None and picture is not None and reader.image_token in prompt:
        shown = reader.prompt(prompt, (picture,))
    return StepRow(prompt, response, choices, shown)


def sampled_log_probs(groups: Sequence[Group]) -> Floats:
    """Return (T,) the log-probabilities that responses were sampled with, in the order of `step_rows`."""
    log_probs = [logprob for step in _steps(groups) for logprob in step.completion.logprobs]
    return np.array(log_probs, dtype=np.float64)


def stale_tokens(groups: Sequence[Group], version: int) -> Bools | None:
    """Return (T,) whether other weights sampled each response token; None where they sampled all."""
    found: list[bool] = []
    for step in _steps(groups):
        one = step.completion
        found += [each != version for each in one.versions or (one.version,) * len(one.response_ids)]
    stale = np.array(found, dtype=np.bool_)
    return stale if stale.any() else None


@dataclass(frozen=True, slots=True)
class Pack:
    """r rows as one sequence of S tokens, from which R response tokens are predicted.

    The tokens are the nodes of the rows' trie in depth-first order; where rows share nothing, that is one
    row after the other.

    Example:
        >>> pack, = pack_rows([StepRow((5, 6), (7, 8)), StepRow((5,), (9,))], token_budget=8)
        >>> pack.input_ids.tolist(), pack.position_ids.tolist(), pack.ends.tolist()
        ([5, 6, 7, 5], [0, 1, 2, 0], [3, 3, 3, 4])
        >>> pack.predictors.tolist(), pack.targets.tolist(), pack.tokens.tolist()
        ([1, 2, 3], [7, 8, 9], [0, 1, 2])
    """

    rows: Ints
    """Indices (r,) of the rows, in packed order."""
    tokens: Ints
    """Index (R,) of each response token among those of all rows in their own order."""
    input_ids: Tensor
    """Token ids, (S,)."""
    position_ids: Tensor
    """Depths (S,) in the trie, from 0 in each row; (3, S) where pictures are among the tokens."""
    ends: Tensor
    """End (S,) of each token's subtree: positions from the token up to there, exclusively, attend to it."""
    read: Tensor
    """Positions (U,) at which response tokens are predicted, ascending."""
    sources: Tensor
    """Index (R,) into these positions for each response token: that of the token before it."""
    order: Tensor
    """Permutation (R,) of response tokens by the position that predicts them."""
    bounds: tuple[int, ...]
    """Number (U + 1,) of these predicted before each position, and altogether."""
    targets: Tensor
    """Response tokens, (R,)."""
    choices: Tensor | None
    """Allowed tokens (R, k) at each, filled up with `NO_CHOICE`; None for free generations."""
    prompt_ends: Tensor
    """Position (r,) of the last prompt token of each row."""
    row_bounds: Tensor
    """Bounds (r + 1,) int32 of rows that share nothing: the start of each, and the end of the last one."""
    longest: int
    """Number of tokens of the longest row."""
    pictures: tuple[Picture, ...] = ()
    """Pictures in the order of their tokens; one without tokens keeps the ranks' passes in step."""

    @property
    def predictors(self) -> Tensor:
        """(R,) position of the token before each response token: its hidden state predicts that one."""
        return self.read[self.sources]

    def chunks(self, size: int) -> list[tuple[slice, Tensor]]:
        """Cut the positions that are read into chunks, each with the response tokens predicted there."""
        count, bounds = len(self.read), self.bounds
        return [
            (slice(begin, begin + size), self.order[bounds[begin] : bounds[min(begin + size, count)]])
            for begin in range(0, count, size)
        ]


def pack_rows(
    rows: Sequence[StepRow], *, token_budget: int, device: torch.device | str = "cpu"
) -> list[Pack]:
    """Pack rows, the longest first, each into the first pack that has room; they share nothing.

    Every response token is in exactly one pack. A row without any token is in none. All rows are of
    constrained or all of free responses. A row longer than ``token_budget`` has a pack of its own.
    """
    check_packable(rows, token_budget)
    return lay_out(rows, row_layouts(rows)(token_budget), device=device)


def row_layouts(rows: Sequence[StepRow]) -> Callable[[int], list[Layout]]:
    """Return what cuts rows into the packs of `pack_rows`, by the token budget."""
    sizes = np.array([len(row) for row in rows], dtype=np.int64)
    return lambda budget: [(members, [0] * len(members)) for members in _first_fit(sizes, budget)]


def check_packable(rows: Sequence[StepRow], token_budget: int) -> None:
    """Refuse a budget below 1, and constrained and free responses together."""
    if token_budget < 1:
        raise UsageError(f"token_budget must be at least 1, got {token_budget}")
    if len({row.choices is None for row in rows if row.response_ids}) > 1:
        raise UsageError("some responses are constrained and others free: give a learner one kind at a time")


def _first_fit(sizes: Ints, budget: int) -> list[list[int]]:
    """Return the rows of each pack; equal sizes keep their order."""
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


def on_device(column: Tensor, device: torch.device) -> Tensor:
    """Return a column on a device, by a copy that blocks neither host nor device."""
    return (column.pin_memory() if device.type == "cuda" else column).to(device, non_blocking=True)


def lay_out(
    rows: Sequence[StepRow],
    layouts: Iterable[Layout],
    *,
    device: torch.device | str,
) -> list[Pack]:
    """Make packs of rows with known shared beginnings."""
    lengths = np.array([len(row.response_ids) for row in rows], dtype=np.int64)
    begins = np.cumsum(lengths) - lengths
    return [_pack(rows, members, shared, begins, torch.device(device)) for members, shared in layouts]


def _pack(
    rows: Sequence[StepRow],
    members: Sequence[int],
    shared: Sequence[int],
    begins: Ints,
    device: torch.device,
) -> Pack:
    sizes = [len(rows[member]) for member in members]
    own = sum(sizes) - sum(shared)
    ids, ends = (np.full(own, own, dtype=np.int64) for _ in range(2))
    pictured = any(rows[member].shown is not None for member in members)
    positions = np.zeros((3, own) if pictured else own, dtype=np.int64)
    pictures: list[Picture] = []
    path = np.zeros(0, dtype=np.int64)
    count = 0
    predictors, tokens, prompt_ends = [], [], []
    for member, common in zip(members, shared, strict=True):
        row, read = rows[member], rows[member].read_ids
        new = slice(count, count + len(read) - common)
        ends[path[common:]] = count  # the subtrees of the previous row's own tokens end here
        path = np.concatenate([path[:common], np.arange(new.start, new.stop)])
        ids[new], positions[..., new] = read[common:], row.positions[..., common:]
        if row.shown is not None and common < len(row.prompt_ids):
            pictures += row.shown.after(common)
        count = new.stop
        last = len(row.prompt_ids) - 1
        prompt_ends.append(path[last])
        predictors.append(path[last : last + len(row.response_ids)])
        tokens.append(begins[member] + np.arange(len(row.response_ids)))
    targets = [token for member in members for token in rows[member].response_ids]
    choices = [allowed for member in members for allowed in rows[member].choices or ()]
    width = max(map(len, choices), default=0)

    read, sources, counts = np.unique(np.concatenate(predictors), return_inverse=True, return_counts=True)

    def tensor(values: Sequence[object] | Ints) -> Tensor:
        return on_device(torch.as_tensor(values, dtype=torch.long), device)

    return Pack(
        rows=np.array(members, dtype=np.int64),
        tokens=np.concatenate(tokens),
        input_ids=tensor(ids),
        position_ids=tensor(positions),
        ends=tensor(ends),
        read=tensor(read),
        sources=tensor(sources),
        order=tensor(sources.argsort(kind="stable")),
        bounds=(0, *np.cumsum(counts).tolist()),
        targets=tensor(targets),
        choices=tensor([[*allowed, *[NO_CHOICE] * (width - len(allowed))] for allowed in choices])
        if choices
        else None,
        prompt_ends=tensor(np.array(prompt_ends)),
        row_bounds=on_device(torch.tensor([0, *np.cumsum(sizes)], dtype=torch.int32), device),
        longest=max(sizes),
        pictures=tuple(pictures),
    )
