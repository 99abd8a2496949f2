"""A program at a terminal of 80 columns and 24 rows."""

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios

from tests.waiting import wait_until

ROWS, COLUMNS = 24, 80

_STYLES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    """Runs ``agentgym`` with a pseudo-terminal at its standard streams, while entered as a context."""

    def __init__(self, *words, **environment):
        self._command = [sys.executable, "-m", "agentgym", *map(str, words)]
        colours = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        unset = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
        self._environment = {k: v for k, v in os.environ.items() if k not in unset} | colours | environment
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.written = ""

    def __enter__(self):
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.settings = termios.tcgetattr(theirs)
        self._theirs = theirs
        self.program = subprocess.Popen(
            self._command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=self._environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C interrupts it
        )
        return self

    def __exit__(self, *error):
        self.program.kill()
        self.program.wait()
        os.close(self._ours)
        os.close(self._theirs)

    def type(self, text):
        """Type something."""
        os.write(self._ours, text.encode())

    def wait_for(self, text, seconds=300.0):
        """Read until the screen shows a text, and nothing more comes; return the screen."""
        try:
            wait_until(lambda: not self._read(0.1) and text in self.screen, seconds)
        except AssertionError:
            raise AssertionError(f"{text!r} is not on the screen:\n{self.screen}") from None
        return self.screen

    def end(self, seconds=300.0):
        """Read until the program has ended; return its exit code."""
        wait_until(lambda: not self._read(0.05) and self.program.poll() is not None, seconds)
        while self._read(0.05):
            pass
        return self.program.wait(0)

    @property
    def screen(self):
        """What has been drawn since the cursor last went home, without styles."""
        return plain(self.written.rpartition("\x1b[H")[2])

    def unread(self):
        """Return what was typed and nobody has read."""
        flags = fcntl.fcntl(self._theirs, fcntl.F_GETFL)
        fcntl.fcntl(self._theirs, fcntl.F_SETFL, flags | os.O_NONBLOCK)
        try:
            return os.read(self._theirs, 100)
        except BlockingIOError:
            return b""

    def settings_now(self):
        """Return the terminal's settings."""
        return termios.tcgetattr(self._theirs)

    def _read(self, seconds):
        if not select.select([self._ours], [], [], seconds)[0]:
            return False
        self.written += self._decoder.decode(os.read(self._ours, 100_000))
        return True


def plain(text):
    """Return a text without styles and other control sequences."""
    return _STYLES.sub("", text).replace("\r\n", "\n")
