"""How an episode looks in a terminal: shared by the human agent and the commands that show play."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentgym.types import Observation, Step, Trajectory

if TYPE_CHECKING:
    from rich.console import Console

MANY = 60
"""Admissible actions shown; beyond it their number is."""

LONG = 400
"""Characters of an action shown; beyond it their number is."""


def show_state(
    console: Console,
    title: str,
    observation: Observation,
    admissible_actions: Sequence[str],
    state_hash: str,
    *,
    numbered: bool = False,
) -> None:
    """Show what an agent sees before it acts.

    Args:
        console: the terminal.
        title: of the ruled line above.
        observation: a string, or a dict with ``text`` and ``image``.
        admissible_actions: shown in order; nothing when empty.
        state_hash: 32 hex digits.
        numbered: put a number to type before each action.
    """
    from rich.text import Text

    console.rule(Text(printable(title)), align="left", style="dim")
    console.print(Text(printable(text_of(observation))), soft_wrap=True)
    console.print(Text(f"state {state_hash}", style="dim"), soft_wrap=True)
    if admissible_actions:
        shown = [
            f"{number} {printable(action)}" if numbered else printable(action)
            for number, action in enumerate(admissible_actions[:MANY], start=1)
        ]
        if len(admissible_actions) > MANY:
            shown.append(f"... and {len(admissible_actions) - MANY} more")
        console.print(Text("  ".join(("actions", *shown)), style="cyan"))


def show_step(console: Console, step: Step) -> None:
    """Show what was done and what it earned."""
    from rich.text import Text

    action = printable(step.action[:LONG])
    if len(step.action) > LONG:
        action += f"... ({len(step.action):,} characters)"
    rejected = "" if step.valid else "  rejected"
    style = "bold" if step.valid else "bold red"
    console.print(Text(f"played {action}  reward {step.reward:g}{rejected}", style=style), soft_wrap=True)


def show_end(console: Console, trajectory: Trajectory) -> None:
    """Show how an episode ended."""
    from rich.text import Text

    line = (
        f"{trajectory.end_reason.replace('_', ' ')} after {len(trajectory.steps)} steps: "
        f"score {trajectory.score:g}, progress {trajectory.progress:g}, return {trajectory.episode_return:g}"
    )
    console.print(Text(line, style="bold green" if trajectory.won else "bold yellow"))


def text_of(observation: Observation) -> str:
    """Return an observation's text; an image is mentioned by its size."""
    if isinstance(observation, str):
        return observation
    height, width = observation["image"].shape[:2]
    return f"{observation['text']}\n[image, {width} x {height}]"


def printable(text: str) -> str:
    """Escape control characters other than line breaks and tabs, so that no text can steer the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)
