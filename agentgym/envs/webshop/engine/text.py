"""Pages as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeAlias

from agentgym.envs.webshop.engine.pages import Node

Mode: TypeAlias = Literal["text", "text_rich", "gigpo"]
"""Form of a page as text: the original's two, and that of GiGPO's public code."""

SEPARATOR = " [SEP] "

_BLANKS = frozenset(" \n\t\f\r")


def plain(nodes: Iterable[Node], instruction: str) -> str:
    """Return the texts of a page, stripped, with separators: the original's mode ``text``."""
    return SEPARATOR.join(_stripped(nodes, instruction))


def rich(nodes: Iterable[Node], instruction: str) -> str:
    """Return the texts of a page, one a line, with marks: the original's mode ``text_rich``."""
    lines: list[str] = []
    chosen = []
    for node, text in shown_texts(nodes, instruction):
        if node.kind not in _MARGINS:
            lines.append(text)
            continue
        word = "clicked button" if node.marked and node.kind != "button" else "button"
        lines.append(f"{_MARGINS[node.kind]}[{word}] {text} [{word}_]")
        if node.marked and node.kind == "option":
            chosen.append(f"You have clicked {text}.")
    return "".join(f"{line}\n" for line in (*reversed(chosen), *lines))


def pieces(nodes: Iterable[Node], instruction: str) -> str:
    """Return the texts of a page that follow the instruction, each in quotes; all of them if none does.

    GiGPO's public code (verl-agent, ``WebshopEnvironmentManager.format_obs``) prints pages so in prompts,
    which give the instruction elsewhere.
    """
    nodes = tuple(nodes)
    kinds = [node.kind for node in nodes]
    if "instruction" not in kinds:
        return plain(nodes, instruction)
    after = nodes[kinds.index("instruction") + 1 :]
    return SEPARATOR.join([f"'{text}'" for text in _stripped(after, instruction)])


RENDERERS: Mapping[Mode, Callable[[Iterable[Node], str], str]] = {
    "text": plain,
    "text_rich": rich,
    "gigpo": pieces,
}

_MARGINS = {"button": "", "link": "\n", "option": "  "}


def shown_texts(nodes: Iterable[Node], instruction: str) -> Iterable[tuple[Node, str]]:
    """Yield nodes with their texts, as the original's HTML parser leaves them.

    It drops texts of blanks only that have a line break, and makes others of blanks only one space.
    """
    for node in nodes:
        text = instruction if node.kind == "instruction" else node.text
        if _vanishes(text):
            continue
        yield node, " " if text.isspace() and _BLANKS.issuperset(text) else text


def _stripped(nodes: Iterable[Node], instruction: str) -> list[str]:
    """Return the texts that `shown_texts` yields, stripped."""
    stripped = []
    for kind, text, _ in nodes:
        if kind == "instruction":
            text = instruction
        bare = text.strip()
        if bare or not _vanishes(text):
            stripped.append(bare)
    return stripped


def _vanishes(text: str) -> bool:
    return not text or ("\n" in text and _BLANKS.issuperset(text))
