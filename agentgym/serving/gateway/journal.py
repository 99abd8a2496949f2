"""Journal of sessions: a file of JSON lines for each, from which a restarted gateway resumes it."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeAlias

from agentgym.errors import UsageError
from agentgym.io.files import make_folder, replace_file, writing
from agentgym.io.records import parse
from agentgym.io.untrusted import MAX_LINES_SIZE, loads_json, read_file
from agentgym.serving.gateway.call_tree import EnvRow, ModelCall
from agentgym.serving.gateway.sessions import CompletedSession, EndedSession, SessionRecord

JournalRecord: TypeAlias = SessionRecord | ModelCall | EnvRow | CompletedSession | EndedSession

_KINDS: dict[str, type[JournalRecord]] = {
    "session": SessionRecord,
    "call": ModelCall,
    "step": EnvRow,
    "completed": CompletedSession,
    "ended": EndedSession,
}
_SUFFIX = ".jsonl"


class SessionJournal:
    """A folder of sessions' files; hold `agentgym.io.files.sole_writer` of it.

    Once `append` returns, a killed process loses nothing; a power cut may take what was not on the disk.
    """

    def __init__(self, folder: Path):
        """Open or make the folder."""
        self.folder = folder
        make_folder(folder)

    def __contains__(self, id: str) -> bool:
        """Return whether there is a file of a session."""
        return self._path(id).is_file()

    def ids(self) -> list[str]:
        """Return the sessions that have a file, in order."""
        return sorted(path.name.removesuffix(_SUFFIX) for path in self.folder.glob(f"*{_SUFFIX}"))

    def append(self, id: str, record: JournalRecord) -> None:
        """Write a record, whole or not at all."""
        data, path = _line(record).encode(), self._path(id)
        with writing(path):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            size, written = os.fstat(file).st_size, 0
            try:
                written = os.write(file, data)
            finally:
                if written != len(data):
                    os.ftruncate(file, size)
                    if not size:
                        path.unlink()  # the session never began
                os.close(file)
            if written != len(data):
                raise UsageError(f"cannot write {path}: no space is left; free some")

    def read(self, id: str) -> tuple[SessionRecord | None, list[JournalRecord]]:
        """Return a session, None for an unknown one, and its further records.

        Half a line that a crash left is cut off the file.
        """
        path = self._path(id)
        data = read_file(path, largest=MAX_LINES_SIZE)
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(path, len(whole))
        records = [_record(line, f"{path}:{place}") for place, line in enumerate(whole.splitlines(), start=1)]
        session = records[0] if records else None
        if not isinstance(session, SessionRecord | None):
            raise UsageError(f"{path} is damaged, it does not begin with a session: delete it")
        calls = [record for record in records if isinstance(record, ModelCall)]
        for number, call in enumerate(calls):
            if call.number != number or not (call.parent is None or 0 <= call.parent < number):
                raise UsageError(f"{path} is damaged, it lacks what call {call.number} continues: delete it")
        return session, records[1:]

    def complete(self, session: SessionRecord, completed: CompletedSession) -> None:
        """Have a session's file hold these alone, on the disk."""
        replace_file(self._path(session.session_id), _line(session) + _line(completed))

    def remove(self, id: str) -> None:
        """Forget a session."""
        with writing(self._path(id)):
            self._path(id).unlink(missing_ok=True)

    def _path(self, id: str) -> Path:
        return self.folder / f"{id}{_SUFFIX}"


def table_of(record: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


encode_json = json.JSONEncoder(
    separators=(",", ":"), allow_nan=False, check_circular=False, default=table_of
).encode
"""Encoder for values of JSON and dataclasses."""


def _line(record: JournalRecord) -> str:
    (kind,) = (name for name, each in _KINDS.items() if type(record) is each)
    return encode_json({"kind": kind, **table_of(record)}) + "\n"


def _record(line: bytes, where: str) -> JournalRecord:
    table = loads_json(line, where, half_characters="kept")
    kind = table.pop("kind", None) if isinstance(table, dict) else None
    if kind not in _KINDS:
        raise UsageError(f"{where} is damaged: delete the file")
    return parse(_KINDS[kind], table, where)
