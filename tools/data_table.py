"""Write the tables of what can be downloaded into docs/data.md: ``python -m tools.data_table``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.filesize import decimal

from agentgym.data.sources import SourceFile, SourceList, source_list
from tools.blocks import replaced, section_block

PAGE = Path(__file__).resolve().parents[1] / "docs" / "data.md"
TITLE = "All data sets"
BLOCK = section_block(TITLE)

CHECKS = {"V": "computed", "HF": "the hub's page", "size": "recorded by you", "-": "recorded by you"}


def tables() -> str:
    """Return a table for each command, with a row for each name."""
    known = source_list()
    parts = []
    for group in ("data", "index"):
        parts += [
            f"\n`agentgym {group} download NAME`:\n",
            "| NAME | size | licence | digest |",
            "|---|---:|---|---|",
        ]
        parts += [
            _row(name, known) for name, about in known.set.items() if bool(about.corpus) == (group == "index")
        ]
    return "\n".join(parts) + "\n\n"


def _row(name: str, known: SourceList) -> str:
    about, files = known.set[name], [file for file in known.files(name) if file.option == 0]
    sizes = [file.size for file in files if file.size is not None]
    size = decimal(sum(sizes)) if sizes else "not stated"
    size += " or more" * (0 < len(sizes) < len(files)) + "".join(f", and {other}" for other in about.needs)
    return f"| {' | '.join((f'`{name}`', size, about.licence, _evidence(files)))} |"


def _evidence(files: Sequence[SourceFile]) -> str:
    """Return how the digests of files are known, in words."""
    first = [file.check.partition(",")[0] for file in files]
    stated = sorted(int(check) for check in first if check.isdigit())
    words = dict.fromkeys(CHECKS[check] for check in first if not check.isdigit())
    if stated:
        words[f"stated by {stated[0]}" + f" to {stated[-1]}" * (stated[0] < stated[-1])] = None
    return ", ".join(words)


def updated(text: str) -> str:
    """Return a page with its table as it should be."""
    return replaced(text, BLOCK, f"## {TITLE}\n{tables()}")


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
