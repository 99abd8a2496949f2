"""SOTOPIA beside SOTOPIA 0.1.4: ``make parity-sotopia``.

The other side runs in an environment of its own, whose interpreter ``--python`` names. A plain ``pip install
sotopia==0.1.4`` tries releases of litellm for very long; these packages are enough for its environment and
its judge, take a minute or two, and need no Redis::

    pip install --no-deps sotopia==0.1.4
    pip install absl-py==2.5.1 beartype==0.19.0 gin-config==0.5.0 hiredis==3.5.0 json_repair==0.35.0 \
        litellm==1.74.15.post2 lxml==5.4.0 openai==1.109.1 pettingzoo==1.24.3 pydantic==2.14.3 \
        redis-om==0.3.5 rich==13.9.4

Episodes of `benchmarks.parity.sotopia_episodes`, and one for each official combination where the data is at
hand, are played by both: every observation of both sides, what each may do, the numbers of turns, why it
ended and when, the judge's whole transcript and the overall scores (of ratings given beforehand, through the
original's own judge with its call of a model replaced) are compared. ``--record`` keeps a few of the invented
ones with the original's outcomes (``sotopia_recorded.json.xz``), which CI compares with.
"""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agentgym.envs.sotopia.actions import ACTION_TYPES, SocialAction
from agentgym.envs.sotopia.data.importer import open_profiles
from agentgym.envs.sotopia.game import GameState, SocialGame
from agentgym.envs.sotopia.ratings import Ratings
from agentgym.envs.sotopia.scenarios import Character, Scenario, Side
from agentgym.envs.sotopia.views import conversation, judge_view, turn_text, view
from agentgym.errors import MissingDataError
from benchmarks.harness.report import machine, parser, publish, table
from benchmarks.parity.sotopia_episodes import Record, draw_episodes, episodes_of, write

OUT = Path(__file__).with_suffix(".json")
RECORDED = OUT.with_name("sotopia_recorded.json.xz")
ORIGINAL = OUT.with_name("sotopia_original.py")

SEED = 20_240_501
COUNT = 1_080
"""Invented episodes: 20 for each relationship, order and amount of context."""
BROKEN = 108
KEPT = 108
"""The first of the invented, recorded: two of each kind."""
ROUNDS = 5
SECONDS = 1.0

COMPARED = ("observations", "legal actions", "turns", "ends", "transcript of the judge", "overall score")
EXAMPLES = 20
"""Differences kept to be looked at."""

SIDES: tuple[Side, Side] = (0, 1)


class Difference(NamedTuple):
    """A place where the two are not alike."""

    episode: int
    step: int
    what: str
    ours: Any
    theirs: Any


def scenario_of(episode: Mapping[str, Any]) -> Scenario:
    """Return the scenario of an episode."""
    first, second = (
        Character(
            id=str(number),
            pronouns=agent["gender_pronoun"],
            **{name: value for name, value in agent.items() if name != "gender_pronoun"},
        )
        for number, agent in enumerate(episode["agents"])
    )
    goals = (episode["goals"][0], episode["goals"][1])
    return Scenario("parity", episode["scenario"], goals, episode["relationship"], (first, second))


def play(episode: Mapping[str, Any]) -> Record:
    """Return what ours shows and says of an episode, as `benchmarks.parity.sotopia_original` does."""
    order = episode["order"]
    draws = episode["draws"] if order == "random" else ()
    game = SocialGame(order, "0.1.4", episode["max_turns"], draws)
    scenario = scenario_of(episode)
    state = game.initial()
    starts = (f"\n{view(scenario, side, episode['detail'])}\nConversation Starts:\n" for side in SIDES)
    shown = [[text, 0, legal(game, state, side)] for side, text in zip(SIDES, starts, strict=True)]
    steps: list[Record] = [{"shown": shown}]
    for tried in episode["actions"]:
        before = len(state.turns)
        for side in game.to_act(state):
            state = game.apply(state, side, SocialAction(*tried[side]))
        ended = bool(game.over(state))
        overall = [Ratings(*given).overall for given in episode["ratings"]]
        steps.append(
            {
                "shown": [
                    [
                        f"Turn #{before}: {turn_text(scenario, state.turns[-1], side)}\n",
                        len(state.turns),
                        legal(game, state, side),
                    ]
                    for side in SIDES
                ],
                "rewards": overall if ended else [0, 0],
                "over": [ended, ended],
                "why": why(game, state),
            }
        )
        if ended:
            break
    context = judge_view(scenario, backgrounds=episode["detail"] != "lite")
    history = f"{context}\n{conversation(scenario, state, None, '0.1.4')}"
    return {"steps": steps, "history": history if game.over(state) else None}


def legal(game: SocialGame, state: GameState, side: Side) -> list[str]:
    """Return what a side may do, sorted; after the end, as the original does, what it might if it went on."""
    kinds = game.legal(state, side)
    if not kinds:
        kinds = ACTION_TYPES if side in game.acting(len(state.turns)) else ("none",)
    return sorted(kinds)


def why(game: SocialGame, state: GameState) -> str:
    """Return the original's words for the end of a conversation; it names every reason that holds."""
    last = state.turns[-1].actions
    held = (
        (len(state.turns) >= game.max_turns, "The conversation is too long; "),
        (last[0].type == "leave", "Agent 1 is leaving; "),
        (last[1].type == "leave", "Agent 2 is leaving; "),
        (state.stale, "The conversation stales for too long; "),
    )
    return f"Environment comments: terminated: {''.join(text for holds, text in held if holds)}".strip()


def differences(episodes: Sequence[Record], outcomes: Sequence[Record]) -> Iterator[Difference]:
    """Yield where ours differs from the original's outcomes."""
    for number, (episode, theirs) in enumerate(zip(episodes, outcomes, strict=True)):
        ours = play(episode)
        if len(ours["steps"]) != len(theirs["steps"]):
            yield Difference(number, -1, "turns", len(ours["steps"]), len(theirs["steps"]))
        for step, (mine, other) in enumerate(zip(ours["steps"], theirs["steps"], strict=False)):
            for place, what in enumerate(("observations", "turns", "legal actions")):
                yield from _unlike(
                    number, step, what, *([shown[place] for shown in each["shown"]] for each in (mine, other))
                )
            for what, key in (("ends", "over"), ("ends", "why"), ("overall score", "rewards")):
                yield from _unlike(number, step, what, mine.get(key), other.get(key))
        yield from _unlike(number, -1, "transcript of the judge", ours["history"], theirs["history"])


def _unlike(number: int, step: int, what: str, mine: Any, other: Any) -> Iterator[Difference]:
    if mine != other:
        yield Difference(number, step, what, mine, other)


def original(python: str, episodes: Sequence[Record]) -> list[Record]:
    """Return the original's outcomes."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "episodes.json"), Path(folder, "outcomes.json")
        write(source, episodes)
        subprocess.run([python, "-P", str(ORIGINAL), str(source), str(target)], check=True)
        outcomes: list[Record] = json.loads(target.read_text())
    return outcomes


def official() -> list[Record]:
    """Return an episode for each official combination; none where the data is not at hand."""
    try:
        scenarios = open_profiles("sotopia/official").scenarios("all")
    except MissingDataError:
        return []
    fields = (
        "first_name",
        "last_name",
        "age",
        "occupation",
        "gender",
        "public_info",
        "personality_and_values",
        "secret",
    )
    given = [
        {
            "relationship": scenario.relationship,
            "scenario": scenario.text,
            "goals": list(scenario.goals),
            "agents": [
                {**{name: getattr(each, name) for name in fields}, "gender_pronoun": each.pronouns}
                for each in scenario.characters
            ],
        }
        for scenario in scenarios
    ]
    return list(episodes_of(given, SEED))


# ---- speed -------------------------------------------------------------------------------------------


def our_speed(*, texts: bool) -> float:
    """Return turns a second of ours.

    Args:
        texts: whether both sides' observations are made, as the original makes them in every step.
    """
    episode = next(draw_episodes(SEED, 1))
    scenario = scenario_of(episode)
    game = SocialGame("round-robin", "0.1.4")
    said = SocialAction("speak", "Good morning to you.")
    count, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < SECONDS:
        state = game.initial()
        while waiting := game.to_act(state):
            game.legal(state, 0), game.legal(state, 1)
            state = game.apply(state, waiting[0], said)
            if texts:
                turn_text(scenario, state.turns[-1], 0), turn_text(scenario, state.turns[-1], 1)
            count += 1
    return count / spent


def measure(python: str) -> Record:
    """Return turns a second and their ratios: medians of rounds that alternate."""
    rounds = []
    for _ in range(ROUNDS):
        run = subprocess.run(
            [python, "-P", str(ORIGINAL), "--speed", str(SECONDS)], check=True, capture_output=True, text=True
        )
        rounds.append((our_speed(texts=False), our_speed(texts=True), float(run.stdout)))
    return {
        "the game": {
            "ours": _median(bare for bare, _, _ in rounds),
            "ratio": _median(bare / theirs for bare, _, theirs in rounds),
        },
        "the game, and each turn's text for both sides": {
            "ours": _median(full for _, full, _ in rounds),
            "ratio": _median(full / theirs for _, full, theirs in rounds),
        },
        "original": {"theirs": _median(theirs for _, _, theirs in rounds)},
    }


def _median(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return round(ordered[len(ordered) // 2], 1)


# ---- report ------------------------------------------------------------------------------------------


def summary(episodes: Sequence[Record], outcomes: Sequence[Record]) -> Record:
    """Return what was compared and how much of it differs."""
    found = list(differences(episodes, outcomes))
    counts = Counter(each.what for each in found)
    return {
        "episodes": len(episodes),
        "turns": sum(len(outcome["steps"]) - 1 for outcome in outcomes),
        "differences": {what: counts[what] for what in COMPARED},
        "relationships": _counts(episode["relationship"] for episode in episodes),
        "orders": _counts(episode["order"] for episode in episodes),
        "context": _counts(episode["detail"] for episode in episodes),
        "ends": _counts(
            reason
            for outcome in outcomes
            for reason in outcome["steps"][-1]["why"]
            .removeprefix("Environment comments: terminated:")
            .split(";")
            if reason.strip()
        ),
        "actions tried": _counts(
            kind for episode in episodes for pair in episode["actions"] for kind, _ in pair
        ),
    }


def _counts(values: Iterable[Any]) -> dict[str, int]:
    return dict(sorted(Counter(str(value).strip() for value in values).items()))


NOTES = """\
Ours plays with `stale_rule="0.1.4"` and shows the conversation in the form `0.1.4`. Actions are compared as
sets: the original's come from a set, whose order is another in each process. Where they differ on purpose:

- By default what a character says stands quoted on one line, its tags as they are. The original shows it raw,
  so that a line break begins a line of the conversation, and lets tags in speech decide who reads it.
- A text that is no XML even with its ampersands mended (`<3`, a tag that is never closed) goes through a
  recovering parser there, which drops characters. Ours keeps them. In the last column all speech is so.
- A text that is one tag with a `viewer` and no more is shown to everybody there. Ours keeps to the viewer.
- With the view `lite` the original does not tell its judge the backgrounds either, so that secrets are rated
  unseen. Ours tells them, unless asked not to, as it is here.
- SOTOPIA 0.1.5 gives every episode the overall score 0: its `step` and `astep` return that number, in the
  rewards and as `complete_rating`, whatever the judge said. It also calls the other's background Unknown in
  every relationship. Neither is followed."""


def report(parts: Mapping[str, Record], speed: Record, about: Mapping[str, str]) -> str:
    """Return the report in Markdown."""
    rows = [
        ["episodes", *(f"{part['episodes']:,}" for part in parts.values())],
        ["turns played", *(f"{part['turns']:,}" for part in parts.values())],
        *([what, *(str(part["differences"][what]) for part in parts.values())] for what in COMPARED),
    ]
    kinds = [
        f"- {each}: {', '.join(f'{name} {count:,}' for name, count in parts['invented'][each].items())}"
        for each in ("relationships", "orders", "context", "actions tried", "ends")
    ]
    speeds = [
        *(
            [name, f"{each['ours']:,.0f}", f"{each['ratio']:,.0f}"]
            for name, each in speed.items()
            if "ratio" in each
        ),
        ["sotopia 0.1.4, `astep` without a judge", f"{speed['original']['theirs']:,.0f}", "1"],
    ]
    lines = [
        "# SOTOPIA beside SOTOPIA 0.1.4",
        "",
        f"`make parity-sotopia` on {about['cpu']}; Python {about['python']}.",
        "",
        *table(("differences in", *parts), rows),
        "",
        "The invented episodes:",
        "",
        *kinds,
        "",
        NOTES,
        "",
        *table(("turns a second", "", "ratio"), speeds),
        "",
        f"Medians of {ROUNDS} rounds that alternate.",
        "",
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, and write the report; 1 where something differs that should not."""
    given = parser(__spec__.name, __doc__)
    given.add_argument("--python", required=True, metavar="PATH", help="the interpreter with sotopia 0.1.4")
    given.add_argument("--record", action="store_true", help=f"write {RECORDED.name} anew, for CI")
    chosen = given.parse_args(arguments)
    episodes = {
        "invented": list(draw_episodes(SEED, COUNT)),
        "official": official(),
        "broken markup": list(draw_episodes(SEED + 1, BROKEN, broken=True)),
    }
    outcomes = {name: original(chosen.python, part) for name, part in episodes.items()}
    parts = {name: summary(episodes[name], outcomes[name]) for name in episodes if episodes[name]}
    speed, about = measure(chosen.python), machine()
    for name in parts:
        for each in list(differences(episodes[name], outcomes[name]))[
            : 0 if name == "official" else EXAMPLES
        ]:
            print(name, *each, sep="\n  ")
    if chosen.record:
        record(episodes["invented"][:KEPT], outcomes["invented"][:KEPT])
    publish(OUT, {"about": about, "parts": parts, "speed": speed}, report(parts, speed, about))
    return int(any(sum(parts[name]["differences"].values()) for name in parts if name != "broken markup"))


def record(episodes: Sequence[Record], outcomes: Sequence[Record]) -> None:
    """Keep episodes with the original's outcomes."""
    text = json.dumps({"episodes": episodes, "outcomes": outcomes}, ensure_ascii=False, separators=(",", ":"))
    RECORDED.write_bytes(lzma.compress(text.encode(), preset=9))


def recorded() -> tuple[list[Record], list[Record]]:
    """Return what `record` kept."""
    kept = json.loads(lzma.decompress(RECORDED.read_bytes()))
    return kept["episodes"], kept["outcomes"]


if __name__ == "__main__":
    sys.exit(main())
