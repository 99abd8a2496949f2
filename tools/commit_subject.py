"""Refuse a commit whose subject is not ``area: what changes``: the hook `commit-msg`.

Example:
    >>> problem("training: a resumed run keeps its seed")
    >>> problem("Plainer words")
    "write the subject as 'area: what changes', such as 'tests: fewer sleeps', not 'Plainer words'"
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

SUBJECT = re.compile(r"[a-z][\w./-]*(?:, [a-z][\w./-]*)*: \S.*[^\s.]")
"""An area or several, in lower case, mostly names of folders; a colon; what changes, without a full stop."""

WRITTEN_BY_GIT = re.compile(r"Merge \S|Revert \"")
"""What the subjects of merges and reverts begin with."""


def problem(subject: str) -> str | None:
    """Return what is wrong with a commit's subject, in one line; None where nothing is."""
    if SUBJECT.fullmatch(subject) or WRITTEN_BY_GIT.match(subject):
        return None
    return f"write the subject as 'area: what changes', such as 'tests: fewer sleeps', not {subject!r:.80}"


def subject_of(message: str) -> str:
    """Return the first line of a message that is neither blank nor a comment."""
    lines = (line.strip() for line in message.splitlines())
    return next((line for line in lines if line and not line.startswith("#")), "")


def main(file: str) -> int:
    """Check the message in a file; return 1 where its subject has another form."""
    found = problem(subject_of(Path(file).read_text(encoding="utf-8")))
    if found:
        sys.stderr.write(f"{found}\n")
    return int(found is not None)


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
