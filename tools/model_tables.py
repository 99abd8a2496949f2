"""Write the tables of chat templates into their page: ``python -m tools.model_tables [FOLDER ...]``.

The rows of TRL's templates are made anew, and those of files ``SOURCE--NAME.jinja`` in folders. Rows of other
templates stay, since those are not copied into the checkout.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from agentgym.io.files import replace_file
from tools.template_trials import MAX_CELL, Template, episodes

PAGE = Path(__file__).resolve().parents[1] / "docs" / "models.md"
TRL, OTHERS = "## Templates of TRL", "## Templates of other projects"
HEAD = ("template", "sha256", "tools", "thinking", "system", "append", "what fails")
SOURCES = {"llamacpp": "llama.cpp", "vllm": "vLLM", "unsloth": "Unsloth", "chujie": "chat_templates"}
"""Projects by what their files begin with, where that is another name."""

_FAMILY = re.compile(
    "qwen|gemma|deepseek|mistral|granite|phi|cohere|command|glm|kimi|lfm|nemotron|minimax|laguna|llama|falcon"
)
_OWNER = re.compile(
    "^(?:(?:gists|pastebins|github-snapshots|hf-snapshots)-[^-]+-|CohereForAI-c4ai-|NousResearch-|deepseek-ai-)"
)


def trl_templates() -> list[Path]:
    """Return the files of TRL's templates, but those that add nothing but its own marks for training."""
    found = find_spec("trl")
    folder = Path(str(found.origin)).parent / "chat_templates" if found else Path("none")
    return sorted(each for each in folder.glob("*.jinja") if not each.stem.endswith("_training"))


def read_rows(text: str) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return the rows of the page by template and, but for TRL's, by project."""
    lines = [line[2:-2].split(" | ") for line in text.partition(TRL)[2].splitlines() if line[:2] == "| "]
    own = 1 - len(HEAD)
    return {(*each[:own],): (*each[own:],) for each in lines if each[0] not in (HEAD[0], "---")}


def table(head: Sequence[str], rows: dict[tuple[str, ...], tuple[str, ...]]) -> str:
    """Return the rows that have a head's first cells, by families."""
    kept = [key for key in rows if len(key) == len(head)]
    kept.sort(key=lambda key: ((_FAMILY.findall(key[0].lower()) or [key[0].lower()])[0], key))
    lines = [(*head, *HEAD[1:]), ["---"] * (len(head) + len(HEAD) - 1), *((*key, *rows[key]) for key in kept)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(words: Sequence[str] | None = None) -> int:
    """Try the templates and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*", help="folders of SOURCE--NAME.jinja files")
    paths = [path for folder in parser.parse_args(words).folders for path in folder.glob("*--*.jinja")]
    text, played = PAGE.read_text(encoding="utf-8"), episodes()
    rows = {key: row for key, row in read_rows(text).items() if len(key) > 1}
    for path in (*trl_templates(), *paths):
        source, _, name = path.stem.rpartition("--")
        name = _OWNER.sub("", name)[:MAX_CELL]
        rows[(name, SOURCES.get(source, source)) if source else (name,)] = Template(
            path.read_text(encoding="utf-8")
        ).row(played)
    own, others = table(HEAD[:1], rows), table((HEAD[0], "from"), rows)
    tables = f"{TRL} {version('trl')}\n\n{own}\n{OTHERS}\n\n{others}"
    replace_file(PAGE, text.partition(TRL)[0] + tables)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
