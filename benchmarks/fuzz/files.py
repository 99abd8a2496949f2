"""A run's honest files, changed, with the digests that follow from them recomputed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import lzma
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from agentgym.core.hashing import HashChain, sha256_json
from agentgym.errors import UsageError
from agentgym.evaluation.log.recorded_answers import ANSWERS_FILE
from agentgym.evaluation.log.results import (
    EPISODES_FILE,
    RUN_FILE,
    EvalLog,
    EvalSample,
    result_id,
)
from agentgym.evaluation.log.runfiles import RUN_FILES, parse_run
from agentgym.evaluation.log.transcripts import TRANSCRIPTS_FILE
from agentgym.evaluation.suites.plan import open_single
from agentgym.evaluation.verify.packed import SUFFIX
from agentgym.io.records import parse
from benchmarks.fuzz.changes import TWICE, bytes_of

Table: TypeAlias = dict[str, Any]

Content: TypeAlias = Mapping[str, bytes | Callable[[Path], None]]
"""Files by name: their bytes, or what puts something else in their place."""

CALLED = "(name)"
"""In a content: what the run's folder or file is called."""


class RunFiles:
    """The honest files of a run, and what they become around a change."""

    def __init__(self, folder: Path, packed: Path):
        """Read them.

        Args:
            folder: the run's.
            packed: the same run in one file.
        """
        self.bytes = {name: (folder / name).read_bytes() for name in RUN_FILES if (folder / name).exists()}
        self.bytes[SUFFIX] = packed.read_bytes()
        self.table: Table = json.loads(self.bytes[RUN_FILE])
        self.run = parse_run(self.table, RUN_FILE)
        self.lines: list[Table] = [json.loads(line) for line in self.bytes[EPISODES_FILE].splitlines()]
        self.packed: list[Table] = [
            json.loads(line) for line in lzma.decompress(self.bytes[SUFFIX]).splitlines()
        ]
        transcripts = self.bytes.get(TRANSCRIPTS_FILE, b"").splitlines()
        self.transcripts: list[Table] = [json.loads(line) for line in transcripts]
        self._transcript_names = [hashlib.sha256(line).hexdigest() for line in transcripts]
        kinds: dict[tuple[Any, ...], int] = {}
        for index, line in enumerate(self.lines):
            counts = not any(key_of(other) == key_of(line) for other in self.lines[index + 1 :])
            kinds.setdefault((line["env"], line["end_reason"], line["attempt"], counts), index)
        self.kinds = list(kinds.values())
        """An episode of each kind: environment, end, attempt, and whether it counts."""
        self._states = {index: _visited(self.run, self.lines[index]) for index in self.kinds}

    def differs(self, content: Content) -> bool:
        """Whether a change changes anything."""
        return any(data != self.bytes.get(name) for name, data in content.items())

    def with_run(self, table: Table) -> Content:
        """Return the files around a changed ``run.json``, with the digests that follow from it."""
        try:
            run = parse_run(table, RUN_FILE)
            return self.closed(self.lines, replace(run, request_id=sha256_json(run.request)))
        except (UsageError, RecursionError):
            pass  # it is no record: its own digest remains
        raw = dict(table)
        with contextlib.suppress(ValueError, TypeError):
            raw["record_id"] = sha256_json({**table, "record_id": None})
        return {RUN_FILE: bytes_of(raw, canonical=False)}

    def with_line(self, index: int, line: Table) -> Content:
        """Return the files around a changed line, with the digests and the hash chain that follow from it."""
        return self.closed(self.replaced(index, self._with_hash_chain(index, line)))

    def replaced(self, index: int, line: Table) -> list[Table]:
        """Return the lines with another in the place of one."""
        return [*self.lines[:index], line, *self.lines[index + 1 :]]

    def closed(self, lines: Sequence[Table], run: EvalLog | None = None) -> Content:
        """Return both files, with the chain of lines and all digests of files recomputed."""
        run = run or self.run
        previous, linked = run.request_id, []
        for line in lines:
            linked.append({**line, "previous": previous} if "previous" in line else line)
            previous = _digest(linked[-1])
        data, result = joined(linked), run.result_id
        with contextlib.suppress(ValueError, RecursionError):  # what is no episode has no result
            result = result_id(run.request_id, [parse(EvalSample, line, "line") for line in linked])
        run = replace(run, result_id=result, episodes_sha256=hashlib.sha256(data).hexdigest())
        run = replace(run, record_id=run.record_digest)
        return {RUN_FILE: run.text.encode("utf-8", "backslashreplace"), EPISODES_FILE: data}

    def with_answers(self, lines: Sequence[Table]) -> Content:
        """Return the files around other recorded answers, with the digests that follow from them."""
        data = joined(lines)
        run = replace(self.run, answers_sha256=hashlib.sha256(data).hexdigest())
        return {**self.closed(self.lines, run), ANSWERS_FILE: data}

    def with_transcript(self, index: int, line: Table) -> Content:
        """Return the files around a changed line of transcripts, with the digests that follow from it."""
        lines = [*self.transcripts[:index], line, *self.transcripts[index + 1 :]]
        names = dict(zip(self._transcript_names, map(_digest, lines), strict=True))
        return self._with_transcripts(self.lines, lines, names)

    def without_attempt(self, index: int) -> Content:
        """Return the files without an attempt and its transcript, others renumbered: nothing tells of it."""
        gone, names, episodes = self.lines[index], {}, []
        named = dict(zip(self._transcript_names, self.transcripts, strict=True))
        for number, line in enumerate(self.lines):
            fewer = number > index and key_of(line) == key_of(gone)
            if number != index:
                episodes.append({**line, "attempt": line["attempt"] - fewer})
                name = line["transcript"]
                named[name] = {**named[name], "attempt": named[name]["attempt"] - fewer}
                names[name] = _digest(named[name])
        return self._with_transcripts(episodes, [named[name] for name in names], names)

    def _with_transcripts(
        self, episodes: Sequence[Table], transcripts: Sequence[Table], names: Mapping[str, str]
    ) -> Content:
        data = joined(transcripts)
        renamed = [{**line, "transcript": names.get(line["transcript"], "")} for line in episodes]
        run = replace(self.run, transcripts_sha256=hashlib.sha256(data).hexdigest())
        return {**self.closed(renamed, run), TRANSCRIPTS_FILE: data}

    def _with_hash_chain(self, index: int, line: Table) -> Table:
        """Return a line with the hash chain that its fields make of the states that were visited."""
        if line.get("hash_chain") != self.lines[index]["hash_chain"]:
            return line
        spec, first, states = self._states[index]
        try:
            actions, rewards = line["actions"], line["rewards"]
            chain = HashChain(spec, line["task_id"], line["seed"], line["rollout"], first)
            for (state, *ends), action, reward in zip(states, actions, rewards, strict=True):
                chain.extend(state, action, reward, *ends)
        except (KeyError, TypeError, ValueError, OverflowError):
            return line  # it has none
        return {**line, "hash_chain": chain.links}


def key_of(line: Table) -> tuple[Any, ...]:
    """Return what names an episode within its run."""
    return line["env"], line["task_id"], line["rollout"]


def _digest(line: Table) -> str:
    return hashlib.sha256(bytes_of(line, canonical=True)).hexdigest()


def joined(lines: Sequence[Table]) -> bytes:
    """Return the bytes of ``episodes.jsonl``."""
    return b"".join(bytes_of(line, canonical=True) + b"\n" for line in lines)


def packed_of(lines: Sequence[Table]) -> Content:
    """Return a packed run."""
    return {SUFFIX: lzma.compress(joined(lines), preset=0)}


def orders(lines: Sequence[Table]) -> Iterator[tuple[str, list[Table]]]:
    """Yield lines dropped, repeated and moved."""
    for index, line in enumerate(lines):
        rest = [*lines[:index], *lines[index + 1 :]]
        yield "dropped", rest
        yield "repeated", [*lines[: index + 1], *lines[index:]]
        yield "repeated at the end", [*lines, line]
        yield "moved to the end", [*rest, line]
        yield "moved to the start", [line, *rest]
        if index + 1 < len(lines):
            yield "swapped with the next", [*lines[:index], lines[index + 1], line, *lines[index + 2 :]]
    yield "all dropped", []
    yield "reversed", list(lines[::-1])


def damages(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield files that are damaged."""
    yield "emptied", b""
    yield "the last byte cut off", data[:-1]
    yield "half of it", data[: len(data) // 2]
    yield "a line more", data + b"\n"
    yield "twice", data * 2
    yield "a byte order mark", b"\xef\xbb\xbf" + data
    yield "line ends of DOS", data.replace(b"\n", b"\r\n")
    yield "zeros behind it", data + bytes(16)
    for place in range(1, 8):
        index = place * len(data) // 8
        yield f"a bit flipped at {place}/8", data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]


def toml_of(table: Table) -> bytes:
    """Write a suite; what TOML has no word for becomes an empty text."""
    lists = {key: value for key, value in table.items() if _is_list_of_tables(value)}
    lines = [_entry(key, value) for key, value in table.items() if key not in lists]
    for key, members in lists.items():
        for member in members:
            lines += [f"[[{key.removesuffix(TWICE)}]]", *(_entry(*item) for item in member.items())]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")


def _is_list_of_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(member, dict) for member in value)


def _entry(key: str, value: Any) -> str:
    return f"{key.removesuffix(TWICE)} = {_toml(value)}"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(_entry(*item) for item in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float):
        return {"Infinity": "inf", "-Infinity": "-inf", "NaN": "nan"}.get(json.dumps(value), repr(value))
    return '""' if value is None else json.dumps(value, ensure_ascii=False)


def _visited(run: EvalLog, line: Table) -> tuple[str, str, list[tuple[str, bool, bool]]]:
    """Play an episode; return its environment's specification, first state, and later states with ends."""
    env = next(found.env for found in run.envs if found.env.label == line["env"])
    with contextlib.closing(open_single(env)) as game:
        _, info = game.reset(seed=line["seed"], options={"task": line["task_id"]})
        first, states = info["state_hash"], []
        for action in line["actions"]:
            _, _, terminated, truncated, info = game.step(action)
            states.append((info["state_hash"], terminated, truncated))
    return env.spec, first, states
