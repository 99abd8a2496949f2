"""Journal of sessions: a file of JSON lines for each, from which it goes on after the gateway was killed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agentgym.errors import UsageError
from agentgym.io.files import make_folder, replace_file, writing
from agentgym.io.untrusted import MAX_LINES_SIZE, loads_json, read_file

_SUFFIX = ".jsonl"


class SessionJournal:
    """A folder of sessions' files; hold `agentgym.io.files.sole_writer` of it.

    Once `append` returns, a killed process loses nothing; a power cut may take what was not on the disk.
    """

    def __init__(self, folder: Path):
        """Open or make the folder."""
        self._folder = folder
        make_folder(folder)

    def __contains__(self, id: str) -> bool:
        """Return whether there is a file of a session."""
        return self._path(id).is_file()

    def ids(self) -> list[str]:
        """Return the sessions that have a file, in order."""
        return sorted(path.name.removesuffix(_SUFFIX) for path in self._folder.glob(f"*{_SUFFIX}"))

    def append(self, id: str, record: Mapping[str, Any]) -> None:
        """Write a record, whole or not at all."""
        data, path = _line(record).encode(), self._path(id)
        with writing(path):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                size = os.fstat(file).st_size
                if os.write(file, data) != len(data):
                    os.ftruncate(file, size)
                    raise UsageError(f"cannot write {path}: no space is left; free some")
            finally:
                os.close(file)

    def read(self, id: str) -> Iterator[Any]:
        """Yield the records of a session; half a line that a crash left is cut off the file."""
        path = self._path(id)
        data = read_file(path, largest=MAX_LINES_SIZE)
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(path, len(whole))
        for number, line in enumerate(whole.splitlines(), start=1):
            yield loads_json(line, f"{path}:{number}", half_characters=True)

    def replace(self, id: str, records: Iterable[Mapping[str, Any]]) -> None:
        """Have a session's file hold these records, on the disk."""
        replace_file(self._path(id), "".join(map(_line, records)))

    def remove(self, id: str) -> None:
        """Forget a session."""
        self._path(id).unlink(missing_ok=True)

    def _path(self, id: str) -> Path:
        return self._folder / f"{id}{_SUFFIX}"


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":")) + "\n"
