"""Terminal view of an episode, shared by the commands that show play."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentgym.agents.halfblocks import half_blocks, shows_pictures
from agentgym.core.suite_spec import ScreenHints
from agentgym.core.types import Observation, Step, Trajectory
from agentgym.io.untrusted import printable as printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

NO_HINTS = ScreenHints()

ROWS_BESIDE = 8
"""Rows that a picture leaves to the text around it."""

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
    hints: ScreenHints = NO_HINTS,
) -> None:
    """Show an agent's view before it acts, below earlier output.

    On a terminal words are wrapped and pictures shown; in a file neither. ``observation``: a string, or a
    dict with ``text`` and ``image``; ``numbered`` puts a number to type before each action.
    """
    from rich.text import Text

    console.rule(Text(printable(title)), align="left", style="dim")
    if not isinstance(observation, str) and shows_pictures(console):
        for line in half_blocks(observation["image"], console.width, console.height - ROWS_BESIDE):
            console.print(line, soft_wrap=True)
    console.print(coloured(_words(observation, console), hints), soft_wrap=not console.is_terminal)
    console.print(Text(f"state {state_hash}", style="dim"), soft_wrap=True)
    if admissible_actions:
        shown = labelled(admissible_actions[:MANY], numbered=numbered)
        if len(admissible_actions) > MANY:
            shown.append(f"... and {len(admissible_actions) - MANY} more")
        console.print(Text("  ".join(("actions", *shown)), style="cyan"))


def show_step(console: Console, step: Step) -> None:
    """Show an action and its reward."""
    console.print(step_line(step), soft_wrap=True)


def step_line(step: Step) -> Text:
    """Return the line of an action and its reward."""
    from rich.text import Text

    action = printable(step.action[:LONG])
    if len(step.action) > LONG:
        action += f"... ({len(step.action):,} characters)"
    rejected = "" if step.valid else "  rejected"
    style = "bold" if step.valid else "bold red"
    return Text(f"played {action}  reward {step.reward:g}{rejected}", style=style)


def end_of(trajectory: Trajectory) -> str:
    """Return the line of an episode's end."""
    return (
        f"{trajectory.end_reason.replace('_', ' ')} after {len(trajectory.steps)} steps: "
        f"score {trajectory.score:g}, progress {trajectory.progress:g}, return {trajectory.episode_return:g}"
    )


def labelled(actions: Sequence[str], *, numbered: bool) -> list[str]:
    """Return the list of actions; ``numbered`` puts a number to type before each."""
    return [
        f"{number} {printable(action)}" if numbered else printable(action)
        for number, action in enumerate(actions, start=1)
    ]


def coloured(text: str, hints: ScreenHints) -> Text:
    """Return an observation's text with the lines of a board in the colours of their symbols."""
    from rich.text import Text

    shown = Text()
    for number, line in enumerate(text.split("\n")):
        shown.append("\n" if number else "")
        if hints.is_board(line):
            for character in line:
                shown.append(character, hints.symbols[character].style if character != " " else "")
        else:
            shown.append(line)
    return shown


def _words(observation: Observation, console: Console) -> str:
    """Return an observation's text, with the size of a picture that cannot be shown."""
    if isinstance(observation, str) or not shows_pictures(console):
        return printable(text_of(observation))
    return printable(observation["text"])


def text_of(observation: Observation) -> str:
    """Return an observation's text; an image is mentioned by its size."""
    if isinstance(observation, str):
        return observation
    height, width = observation["image"].shape[:2]
    return f"{observation['text']}\n[image, {width} x {height}]"
