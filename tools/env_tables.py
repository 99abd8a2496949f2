"""Write what each environment is at a glance into its page: ``python -m tools.env_tables``.

Spaces, actions, rewards and splits are read off the environment; speed and parity are links.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from agentgym.core.rewards import RewardScheme
from agentgym.registration import class_of, open_env
from tools.blocks import replaced, table_block

PAGES = Path(__file__).resolve().parents[1] / "docs" / "envs"
BLOCK = table_block("| at a glance |")


@dataclass(frozen=True, slots=True)
class EnvPage:
    """A page: its environments, and what they do not know of themselves."""

    envs: tuple[str, ...]
    """Without ``agentgym/`` and ``-v0``."""
    speed: str
    parity: str


SPEED, PARITY, STUDIES = (f"../../benchmarks/{name}" for name in ("speed", "parity", "studies"))

ENV_PAGES = {
    "sokoban": EnvPage(
        ("Sokoban", "VisualSokoban"),
        f"[beside gym-sokoban]({SPEED}/results.md)",
        f"[gym-sokoban, 100,198 steps]({PARITY}/sokoban.md)",
    ),
    "alfworld": EnvPage(
        ("ALFWorld",),
        f"[beside TextWorld]({SPEED}/alfworld.md)",
        f"[TextWorld, 685 games]({PARITY}/alfworld.md)",
    ),
    "webshop": EnvPage(
        ("WebShop",),
        f"[beside the original]({SPEED}/webshop_original.md), [at scale]({STUDIES}/webshop_scale.md)",
        f"[40 recorded episodes]({PARITY}/webshop.md), [search]({PARITY}/webshop_search.md)",
    ),
    "multihop_qa": EnvPage(
        ("HotpotQA", "TwoWiki", "MuSiQue", "SearchQA"),
        "[BM25 beside others](../../benchmarks/retrieval/bm25.md)",
        f"[the official scripts' scores]({PARITY}/qa.md)",
    ),
    "paper_search": EnvPage(
        ("PaperSearch",),
        "measured at [three million papers](../../benchmarks/retrieval/papers.md)",
        "none: PaSa's environment cannot be run offline",
    ),
    "sotopia": EnvPage(
        ("Sotopia",), f"[utterances a second]({SPEED}/sotopia.md)", f"[sotopia 0.1.4]({PARITY}/sotopia.md)"
    ),
    "ezpoints": EnvPage(("EZPoints",), f"[learned in minutes]({STUDIES}/learning.md)", "see below"),
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
        "rewards": ", ".join(f"`{scheme}`" for scheme in get_args(RewardScheme)),
        "splits": ", ".join(f"{split} ({size:,})" for split, size in sizes.items()),
        "steps": str(first.default_max_steps),
        "speed": about.speed,
        "parity": about.parity,
    }
    lines = ["| at a glance | |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows.items())]
    return "\n".join([*lines, ""])


def _space(env_id: str) -> str:
    space = open_env(env_id).observation_space
    parts = getattr(space, "spaces", {"text": space})
    pictures = [f"`{part}`" for name, part in parts.items() if name != "text"]
    return " and ".join(["text", *pictures])


def updated(page: Path) -> str:
    """Return a page's text with its table as it should be."""
    return replaced(page.read_text(encoding="utf-8"), BLOCK, glance(page.stem))


def pages() -> list[Path]:
    """Return the pages of environments."""
    return [PAGES / f"{name}.md" for name in ENV_PAGES]


if __name__ == "__main__":
    for path in pages():
        path.write_text(updated(path), encoding="utf-8")
