"""The rows of ``docs/templates.csv``: what each chat template that was tried does.

``docs/models.md`` shows some of them; the documentation site has a table of all.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path

from tools.blocks import replaced, table_block

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, ROWS = DOCS / "models.md", DOCS / "templates.csv"
HEAD = ("template", "from", "sha256", "tools", "thinking", "system", "append", "what fails")
TRL = "TRL"
SHOWN = {
    "deepseekv3": "DeepSeek V3",
    "gemma3": "Gemma 3",
    "gemma4_v5": "Gemma 4",
    "glm4moe": "GLM 4.5",
    "gptoss": "gpt-oss",
    "lfm2_2_5_v2": "LFM2.5",
    "llama3_2": "Llama 3.2",
    "nemotron_3_nano": "Nemotron 3 Nano",
    "phi3_5": "Phi 3.5",
    "qwen2_5": "Qwen2.5",
    "qwen3": "Qwen3",
    "qwen3_instruct_2507": "Qwen3 2507",
    "qwen3_5_think": "Qwen3.5",
}
"""Models of the page's table, by TRL's names of their templates."""
BLOCK = table_block("| model |")

_FAMILY = re.compile(
    "qwen|gemma|deepseek|mistral|granite|phi|cohere|command|glm|kimi|lfm|nemotron|minimax|laguna|llama|falcon"
)

Rows = dict[tuple[str, str], tuple[str, ...]]
"""The cells after the name of a template and the project that it is from."""


def read_rows() -> Rows:
    """Read the file."""
    with ROWS.open(encoding="utf-8", newline="") as file:
        _, *lines = csv.reader(file)
    return {(name, source): (*row,) for name, source, *row in lines}


def text_of(rows: Rows) -> str:
    """Return the file's text: TRL's templates first, then by families."""

    def place(key: tuple[str, str]) -> tuple[bool, str, tuple[str, str]]:
        name = key[0].lower()
        return key[1] != TRL, (_FAMILY.findall(name) or [name])[0], key

    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(
        [HEAD, *((*key, *rows[key]) for key in sorted(rows, key=place))]
    )
    return out.getvalue()


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return lines as a table in Markdown."""
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ["---"] * len(head), *lines))


def updated(text: str, rows: Rows) -> str:
    """Return the page with its table of some models as it should be."""
    lines = [(model, *rows[name, TRL][1:]) for name, model in SHOWN.items()]
    return replaced(text, BLOCK, table(("model", *HEAD[3:]), lines))


def site_section(rows: Rows) -> str:
    """Return the section with all rows, which the page has on the site."""
    return f"\n## All templates\n\n{table(HEAD, [(*key, *row) for key, row in rows.items()])}"
