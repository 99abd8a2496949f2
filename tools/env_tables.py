"""Write each environment's two tables into its page: ``python -m tools.env_tables``.

At a glance: spaces, actions and splits are read off the environment; speed is a link.
Options: names and defaults are those of the constructor, meanings those of its docstring.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentgym.registration import class_of, open_env
from tools.blocks import replaced, table_block

PAGES = Path(__file__).resolve().parents[1] / "docs" / "envs"
BLOCK = table_block("| at a glance |")
OPTIONS = table_block("| option and default |")
ARGUMENT = re.compile(r"^    (\w+): (.*(?:\n {8,}.*)*)", re.MULTILINE)
"""An argument in a docstring, and its meaning."""


@dataclass(frozen=True, slots=True)
class EnvPage:
    """A page: its environments, and what they do not know of themselves."""

    envs: tuple[str, ...]
    """Without ``agentgym/`` and ``-v0``."""
    speed: str
    """Link to what was measured."""


SPEED, STUDIES = (f"../../benchmarks/{name}" for name in ("speed", "studies"))

ENV_PAGES = {
    "sokoban": EnvPage(("Sokoban", "VisualSokoban"), f"[beside gym-sokoban]({SPEED}/results.md)"),
    "alfworld": EnvPage(("ALFWorld",), f"[beside TextWorld]({SPEED}/alfworld.md)"),
    "webshop": EnvPage(
        ("WebShop",),
        f"[beside the original]({SPEED}/webshop_original.md), [at scale]({STUDIES}/webshop_scale.md)",
    ),
    "multihop_qa": EnvPage(
        ("HotpotQA", "TwoWiki", "MuSiQue", "SearchQA"),
        "[BM25 beside others](../../benchmarks/retrieval/bm25.md)",
    ),
    "paper_search": EnvPage(
        ("PaperSearch",), "measured at [three million papers](../../benchmarks/retrieval/papers.md)"
    ),
    "sotopia": EnvPage(("Sotopia",), f"[utterances a second]({SPEED}/sotopia.md)"),
    "ezpoints": EnvPage(("EZPoints",), f"[learned in minutes]({STUDIES}/learning.md)"),
}


def glance(page: str) -> str:
    """Return a page's table.

    Args:
        page: its name, without ``.md``.
    """
    about = ENV_PAGES[page]
    names = [f"agentgym/{name}-v0" for name in about.envs]
    first = class_of(names[0])
    sizes = {split: len(open_env(names[0], split=split).tasks) for split in first.splits}
    tools = ", ".join(f"`{tool.name}`" for tool in first.suite_spec.tools)
    kind = {"enumerated": "all are listed", "template": "free text in slots"}[first.action_kind]
    rows = {
        "environments": ", ".join(f"`{name}`" for name in names),
        "observations": "; ".join(dict.fromkeys(_space(name) for name in names)),
        "actions": f"text; {kind}: {tools}",
        "splits": ", ".join(f"{split} ({size:,})" for split, size in sizes.items()),
        "steps": str(first.default_max_steps),
        "speed": about.speed,
    }
    lines = ["| at a glance | |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows.items())]
    return "\n".join([*lines, ""])


def _space(env_id: str) -> str:
    space = open_env(env_id).observation_space
    parts = getattr(space, "spaces", {"text": space})
    pictures = [f"`{part}`" for name, part in parts.items() if name != "text"]
    return " and ".join(["text", *pictures])


def options(page: str) -> str:
    """Return the table of a page's options, in the constructor's order; ``render_mode`` is that of Gymnasium.

    Args:
        page: its name, without ``.md``.
    """
    init: Callable[..., None] = class_of(f"agentgym/{ENV_PAGES[page].envs[0]}-v0").__init__
    defaults = inspect.signature(init).parameters
    lines = ["| option and default | meaning |", "|---|---|"]
    for name, words in ARGUMENT.findall((inspect.getdoc(init) or "").partition("\nRaises:")[0]):
        meaning = " ".join(words.split()).replace("``", "`").rstrip(".").replace("|", "\\|")
        if name != "render_mode":
            default = repr(defaults[name].default).replace("'", '"')
            lines.append(f"| `{name}={default}` | {meaning} |")
    return "\n".join([*lines, ""])


def updated(page: Path) -> str:
    """Return a page's text with its tables as they should be."""
    text = replaced(page.read_text(encoding="utf-8"), BLOCK, glance(page.stem))
    return replaced(text, OPTIONS, options(page.stem))


def pages() -> list[Path]:
    """Return the pages of environments."""
    return [PAGES / f"{name}.md" for name in ENV_PAGES]


if __name__ == "__main__":
    for path in pages():
        path.write_text(updated(path), encoding="utf-8")
