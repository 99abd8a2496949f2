"""Try chat templates and write what each does: ``python -m tools.model_tables [FOLDER ...]``.

The rows of TRL's templates in ``docs/templates.csv`` are made anew, and those of files
``SOURCE--NAME.jinja`` in folders. Rows of other templates stay, since those are not copied into the checkout.
The table in ``docs/models.md`` follows.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from agentgym.io.files import replace_file
from tools import template_rows
from tools.template_trials import MAX_CELL, Template, episodes

SOURCES = {"llamacpp": "llama.cpp", "vllm": "vLLM", "unsloth": "Unsloth", "chujie": "chat_templates"}
"""Projects by what their files begin with, where that is another name."""

_OWNER = re.compile(
    "^(?:(?:gists|pastebins|github-snapshots|hf-snapshots)-[^-]+-|CohereForAI-c4ai-|NousResearch-|deepseek-ai-)"
)


def trl_templates() -> list[Path]:
    """Return the files of TRL's templates, but those that add nothing but its own marks for training."""
    found = find_spec("trl")
    folder = Path(str(found.origin)).parent / "chat_templates" if found else Path("none")
    return sorted(each for each in folder.glob("*.jinja") if not each.stem.endswith("_training"))


def main(words: Sequence[str] | None = None) -> int:
    """Try the templates and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*", help="folders of SOURCE--NAME.jinja files")
    paths = [path for folder in parser.parse_args(words).folders for path in folder.glob("*--*.jinja")]
    played = episodes()
    rows = {key: row for key, row in template_rows.read_rows().items() if key[1] != template_rows.TRL}
    for path in (*trl_templates(), *paths):
        source, _, name = path.stem.rpartition("--")
        key = _OWNER.sub("", name)[:MAX_CELL], SOURCES.get(source, source) or template_rows.TRL
        rows[key] = Template(path.read_text(encoding="utf-8")).row(played)
    page = template_rows.PAGE.read_text(encoding="utf-8")
    replace_file(template_rows.ROWS, template_rows.text_of(rows))
    replace_file(template_rows.PAGE, template_rows.updated(page, rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
