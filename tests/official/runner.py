"""The command line with another list of downloads, which may kill itself at the n-th change of its files.

``python -B -m tests.official.runner TABLE PLACE ARGUMENTS``. Changes are what the interpreter reports to
`sys.addaudithook`: files that are opened to be written, renamed, removed or made below the folder that this
runs in. With the place ``0`` it says in the last line of stderr how many there were; with ``EVENT:WRITES`` it
dies after so many calls of `write` that follow the change of that number, or else before the next change but
three, or at its end; with ``rename:N`` just before the n-th rename, and with nothing never.
"""

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "sqlite3.connect"}


def die() -> None:
    """End as by `kill -9`."""
    os.kill(os.getpid(), signal.SIGKILL)


class Counter:
    """Counts changes, and kills this process at a place."""

    def __init__(self, place: str, folder: str):
        """Count nothing yet; ``folder``: where changes count."""
        name, _, number = place.partition(":")
        self.rename = int(number) if name == "rename" else 0
        self.event, self.writes = (0, 0) if self.rename else (int(name), int(number or 0))
        self.folder, self.count, self.renamed = folder, 0, 0

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take an event of the interpreter."""
        if event == "open":
            if not arguments[2] & (os.O_WRONLY | os.O_RDWR):
                return
        elif event not in CHANGES:
            return
        if not str(arguments[0]).startswith(self.folder):
            return
        self.count += 1
        self.renamed += event == "os.rename"
        if (event == "os.rename" and self.renamed == self.rename) or self.count == self.event + 4 > 4:
            die()
        if self.count == self.event:
            if not self.writes:
                die()
            threading.setprofile(self.watch)
            sys.setprofile(self.watch)

    def watch(self, frame: FrameType, event: str, called: Any) -> None:
        """Take a call after the change of number ``event``."""
        if event == "c_call" and called.__name__ == "write":
            self.writes -= 1
            if not self.writes:
                die()


def main() -> int:
    """Run the command."""
    table, place, *arguments = sys.argv[1:]
    from agentgym import cli
    from agentgym.data import fetching, sources
    from agentgym.retrieval import adopt

    adopt.check_ready = lambda encoder: (
        None
    )  # the files are compared, whether an index can be taken over or not
    sources.SOURCES = Path(table)
    fetching._BLOCK = 1 << 12  # copies are a thousand times smaller than the real files
    if not place:
        return int(cli.main(arguments) or 0)
    counter = Counter(place, os.getcwd())
    sys.addaudithook(counter.hear)
    code = int(cli.main(arguments) or 0)
    if place != "0":
        die()
    sys.stderr.write(f"\n{counter.count} changes, {counter.renamed} renames\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
