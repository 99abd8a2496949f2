"""Transcripts: messages to and from a model; ``transcripts.jsonl`` has a line per episode.

A line is compact without being packed: the parts of a text between blank lines stand once in an episode's
table of texts, however many prompts repeat them, and the token ids of a prompt are what differs from the one
before it. `TranscriptRecord.messages` and `TranscriptRecord.prompt_ids` put both together again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agentgym.core.arrays import sum_in_order
from agentgym.core.hashing import canonical_json
from agentgym.core.types import Completion, Message, Trajectory
from agentgym.errors import UsageError
from agentgym.evaluation.log.redaction import Redaction, Redactor
from agentgym.io.files import replace_file
from agentgym.io.records import LEFT_OUT, parse
from agentgym.io.untrusted import MAX_LINES_SIZE, loads_json, read_file

if TYPE_CHECKING:
    from agentgym.evaluation.log.results import EvalSample

TRANSCRIPTS_FILE = "transcripts.jsonl"

_BETWEEN = "\n\n"
"""Separator between the parts of a text."""

_TICKS = 6
"""Decimals of times in seconds."""

_MAX_MESSAGE_LENGTH = 100_000_000
"""Most characters of a message, so that a small file cannot stand for a huge one."""


@dataclass(frozen=True, slots=True)
class TranscriptMessage:
    """A message as it was sent."""

    role: str
    """``system``, ``user``, ``assistant`` or ``tool``."""
    parts: tuple[int, ...]
    """Indices into `TranscriptRecord.texts`; the message joins these texts with blank lines."""


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """Token ids of a prompt: what differs from the last prompt of the episode that has any."""

    start: int
    """Number of leading tokens shared with the previous prompt."""
    ids: tuple[int, ...]
    """Token ids between both shared parts."""
    end: int
    """Number of trailing tokens shared with the previous prompt."""


@dataclass(frozen=True, slots=True)
class TranscriptTokens:
    """Sampled tokens, one by one; of open weights alone."""

    prompt: PromptTokens | None
    """Prompt in tokens; None where a part of it was redacted."""
    response_ids: tuple[int, ...]
    """Token ids as sampled, the stop token included."""
    logprobs: tuple[float, ...]
    """Natural-log probability of each token under the sampling distribution; float32, in the fewest digits
    that identify it."""


@dataclass(frozen=True, slots=True)
class TranscriptStep:
    """One question to the model, and its answer."""

    messages: tuple[TranscriptMessage, ...]
    """Messages as sent; empty where the model received none."""
    response: str
    """Text of the model."""
    action: str
    """Action parsed from the response and sent to the environment."""
    format_error: str
    """Reason why the parser could not read an action; empty where it could."""
    error: str
    """Reason why the step was not played, an `agentgym.core.types.EndReason`: no action, or no answer from a
    query backend; else empty."""
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    """Seconds of the model's answer."""
    cost: float
    """Cost in US dollars."""
    tokens: TranscriptTokens | None
    """Sampled tokens; None for models that return none, and where a part of the response was redacted."""
    note: str = field(default="", metadata={LEFT_OUT: True})
    """Remark on how the action was read from a response that departs from the format; else left out."""


@dataclass(frozen=True, slots=True)
class TranscriptRecord:
    """An episode's transcript."""

    env: str
    """Label of the environment in the suite."""
    task_id: str
    rollout: int
    attempt: int
    """Number of the attempt at this episode, from 1."""
    texts: tuple[str, ...]
    """Parts of messages, each once, in the order of their first use."""
    steps: tuple[TranscriptStep, ...]
    redactions: tuple[Redaction, ...]
    """Number of replacements by pattern, over all texts as they were sent."""

    def __post_init__(self) -> None:
        """Refuse references that lead nowhere, or to something huge."""
        if len(set(self.texts)) < len(self.texts):
            raise ValueError("texts holds a text twice")
        sent = [message.parts for step in self.steps for message in step.messages]
        named = {part for parts in sent for part in parts}
        if named != set(range(len(self.texts))):
            raise ValueError(f"messages name {len(named)} texts, not each of the {len(self.texts)} there are")
        sizes = [len(text) + len(_BETWEEN) for text in self.texts]
        if any(sum(sizes[part] for part in parts) > _MAX_MESSAGE_LENGTH for parts in sent):
            raise ValueError(f"a message has more than {_MAX_MESSAGE_LENGTH:,} characters")
        before = 0
        for number, step in enumerate(self.steps):
            prompt = None if step.tokens is None else step.tokens.prompt
            if prompt is not None:
                if min(prompt.start, prompt.end) < 0 or prompt.start + prompt.end > before:
                    raise ValueError(f"step {number}: the prompt before has only {before} tokens")
                before = prompt.start + len(prompt.ids) + prompt.end
                if before != step.prompt_tokens:
                    raise ValueError(
                        f"step {number}: {before} token ids of {step.prompt_tokens} prompt tokens"
                    )

    @property
    def line(self) -> str:
        """JSON on one line."""
        table = asdict(self)
        for step in table["steps"]:
            if not step["note"]:
                del step["note"]
        return canonical_json(table)

    @property
    def sha256(self) -> str:
        """The digest in the episode's line: of `line`, without a newline."""
        return hashlib.sha256(self.line.encode()).hexdigest()

    @property
    def length(self) -> int:
        """Characters of all messages as they were sent, and of all responses."""
        sizes = [len(text) + len(_BETWEEN) for text in self.texts]
        sent = (part for step in self.steps for message in step.messages for part in message.parts)
        return sum(sizes[part] for part in sent) + sum(len(step.response) for step in self.steps)

    def messages(self, number: int) -> tuple[Message, ...]:
        """Return the messages to the model at a step, counted from 0."""
        return tuple(
            Message(message.role, _BETWEEN.join(self.texts[part] for part in message.parts))
            for message in self.steps[number].messages
        )

    def prompt_ids(self) -> Iterator[tuple[int, ...] | None]:
        """Yield the token ids of each step's prompt; None for a prompt without."""
        before: tuple[int, ...] = ()
        for step in self.steps:
            prompt = None if step.tokens is None else step.tokens.prompt
            if prompt is None:
                yield None
            else:
                before = (*before[: prompt.start], *prompt.ids, *before[len(before) - prompt.end :])
                yield before

    @property
    def format_errors(self) -> int:
        """Number of steps whose response the parser could not read."""
        return sum(step.format_error != "" for step in self.steps)


def has_transcript(trajectory: Trajectory) -> bool:
    """Return whether a model played an episode: whether any answer holds messages or sampled tokens."""
    return any(completion.messages or completion.response_ids for completion in trajectory.completions)


def transcript_of(
    trajectory: Trajectory, env_label: str, attempt: int, redactor: Redactor
) -> TranscriptRecord:
    """Return the transcript of an episode.

    The policy must keep messages. ``attempt`` counts from 1. The redactor is applied to everything but
    actions, which verification plays again; token ids of redacted text are left out.
    """
    redactor.report()  # clears the counts of the previous episode
    texts: dict[str, int] = {}
    before: tuple[int, ...] = ()
    steps = []
    for completion in trajectory.completions:
        sent = [Message(message.role, _clean(message.text, redactor)) for message in completion.messages]
        response = _clean(completion.text, redactor)
        tokens = None
        if completion.response_ids and response == completion.text:
            ids = tuple(completion.prompt_ids) if tuple(sent) == tuple(completion.messages) else ()
            prompt = _delta(before, ids) if ids else None
            before = ids or before
            tokens = TranscriptTokens(
                prompt, tuple(completion.response_ids), tuple(map(_float32, completion.logprobs))
            )
        messages = tuple(
            TranscriptMessage(
                message.role,
                tuple(texts.setdefault(part, len(texts)) for part in message.text.split(_BETWEEN)),
            )
            for message in sent
        )
        # the model's answer itself has no error where a query backend gave none
        error = trajectory.end_reason if completion is trajectory.unplayed else ""
        unread, note = (_clean(text, redactor) for text in (completion.format_error, completion.note))
        steps.append(_step(completion, messages, response, (unread, note), error, tokens))
    return TranscriptRecord(
        env=env_label,
        task_id=trajectory.task_id,
        rollout=trajectory.rollout,
        attempt=attempt,
        texts=tuple(texts),
        steps=tuple(steps),
        redactions=redactor.report(),
    )


def check_transcript(record: TranscriptRecord, episode: EvalSample) -> Iterator[str]:
    """Yield the contradictions between a transcript and its episode's line."""
    for name in ("env", "task_id", "rollout", "attempt"):
        ours, theirs = getattr(record, name), getattr(episode, name)
        if ours != theirs:
            yield f"{name} is {ours!r} in the transcript, {theirs!r} in the episode"
    played = tuple(step.action for step in record.steps if not step.error)
    if played != episode.actions:
        yield f"the transcript has other actions than the {len(episode.actions)} that were played"
    failed: list[tuple[int, str]] = [(n, step.error) for n, step in enumerate(record.steps) if step.error]
    if failed not in ([], [(len(record.steps) - 1, episode.end_reason)]):
        yield f"the transcript has errors at the steps {failed}, the episode ended as {episode.end_reason}"
    for name in ("prompt_tokens", "completion_tokens"):
        total = sum(getattr(step, name) for step in record.steps)
        if total != getattr(episode, name):
            yield f"{name} sum to {total} in the transcript, {getattr(episode, name)} in the episode"
    cost = sum_in_order(step.cost for step in record.steps)
    if cost != episode.cost:
        yield f"cost sums to {cost:g} in the transcript, {episode.cost:g} in the episode"
    if record.format_errors != episode.format_errors:
        yield f"the transcript has {record.format_errors} format errors, the episode {episode.format_errors}"
    for number, step in enumerate(record.steps):
        tokens = step.tokens
        if tokens and not len(tokens.response_ids) == len(tokens.logprobs) == step.completion_tokens:
            yield (
                f"step {number}: {len(tokens.response_ids)} token ids and {len(tokens.logprobs)} "
                f"log-probabilities of {step.completion_tokens} completion tokens"
            )


# ---- the file ----------------------------------------------------------------------------------


def parse_transcripts(data: bytes) -> Iterator[tuple[int, TranscriptRecord | str]]:
    """Yield for each line of ``transcripts.jsonl`` its number and its record, or its error."""
    lines = data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if number == len(lines):
            if line:
                yield number, "the line is cut off"
            return
        try:
            yield number, _parse_line(line)
        except ValueError as error:
            yield number, f"malformed: {error}"


def read_transcripts(folder: Path) -> list[TranscriptRecord]:
    """Read a run's transcripts, in the order in which the episodes ended.

    The message of a malformed line has its number.
    """
    records = []
    for number, outcome in parse_transcripts(_read(folder)):
        if isinstance(outcome, str):
            raise UsageError(f"{folder / TRANSCRIPTS_FILE}, line {number}: {outcome}")
        records.append(outcome)
    return records


def find_transcript(folder: Path, sha256: str) -> TranscriptRecord | None:
    """Return the transcript that an episode's line names; None for an episode without one."""
    if not sha256:
        return None
    for number, line in enumerate(_read(folder).split(b"\n"), start=1):
        if hashlib.sha256(line).hexdigest() == sha256:
            try:
                return _parse_line(line)
            except ValueError as error:
                where = f"{folder / TRANSCRIPTS_FILE}, line {number}"
                raise UsageError(f"{where}: malformed: {error}") from error
    raise UsageError(f"{folder / TRANSCRIPTS_FILE} lacks the transcript {sha256:.12}; restore the file")


@dataclass(frozen=True, slots=True)
class TranscriptRecorder:
    """Makes the lines of ``transcripts.jsonl`` as episodes end."""

    redactor: Redactor
    wanted: bool | None = None
    """Whether transcripts are made; None for those that `has_transcript`."""

    def line(self, trajectory: Trajectory, env_label: str, attempt: int) -> str | None:
        """Return the transcript of an episode as JSON on one line; None where it has none."""
        if not (has_transcript(trajectory) if self.wanted is None else self.wanted):
            return None
        return transcript_of(trajectory, env_label, attempt, self.redactor).line


def keep_transcripts(folder: Path, named: Iterable[str]) -> None:
    """Drop the lines of a run's transcripts that no episode names: those of episodes that were lost.

    Without any named line the file is removed.
    """
    wanted = set(named) - {""}
    path = folder / TRANSCRIPTS_FILE
    if not wanted:
        path.unlink(missing_ok=True)
        return
    lines = [line for line in _read(folder).split(b"\n") if line]
    by_digest = {hashlib.sha256(line).hexdigest(): line for line in lines}
    if missing := wanted - by_digest.keys():
        raise UsageError(
            f"{path} lacks {len(missing)} transcripts that episodes name; restore the file, or remove the "
            "folder and run again"
        )
    if len(by_digest) != len(lines) or by_digest.keys() != wanted:
        text = b"".join(line + b"\n" for sha256, line in by_digest.items() if sha256 in wanted)
        replace_file(path, text.decode())


# ---- inside ------------------------------------------------------------------------------------


def _step(
    completion: Completion,
    messages: tuple[TranscriptMessage, ...],
    response: str,
    read: tuple[str, str],
    error: str,
    tokens: TranscriptTokens | None,
) -> TranscriptStep:
    return TranscriptStep(
        messages=messages,
        response=response,
        action=completion.action,
        format_error=read[0],
        note=read[1],
        error=error,
        prompt_tokens=completion.prompt_tokens,
        completion_tokens=completion.completion_tokens,
        seconds=round(completion.seconds, _TICKS),
        cost=float(completion.cost),
        tokens=tokens,
    )


def _clean(text: str, redactor: Redactor) -> str:
    """Redact a text; half surrogate pairs, which no file can hold, become question marks."""
    return redactor.redact(text.encode(errors="replace").decode())


def _delta(before: Sequence[int], ids: tuple[int, ...]) -> PromptTokens:
    """Return the difference between two prompts."""
    most = min(len(before), len(ids))
    old, new = np.asarray(before[:most]), np.asarray(ids[:most])
    start = _equal(old == new)
    old, new = np.asarray(before[len(before) - most :]), np.asarray(ids[len(ids) - most :])
    end = min(_equal((old == new)[::-1]), most - start)
    return PromptTokens(start, ids[start : len(ids) - end], end)


def _equal(same: Any) -> int:
    """Return the number of entries that are true before the first that is not."""
    return len(same) if same.all() else int(np.argmin(same))


def _float32(number: float) -> float:
    """Return a number whose shortest spelling is that of the nearest float32."""
    return float(str(np.float32(number)))


def _read(folder: Path) -> bytes:
    remedy = "bench with --transcripts to have them"
    return read_file(folder / TRANSCRIPTS_FILE, largest=MAX_LINES_SIZE, remedy=remedy)


def _parse_line(line: bytes) -> TranscriptRecord:
    record = parse(TranscriptRecord, loads_json(line, "line"), "transcript")
    if record.line.encode() != line:
        raise ValueError("the line is not written as records are")
    return record
