"""A reader who searches for a word of the field finds the module that it belongs to, and reads sentences."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests import structure

PACKAGE = Path(__file__).parents[1] / "agentgym"

PLACES = {
    "advantage": "algos",
    "rollout worker": "rollout",
    "chat template": "prompts",
    "reward model": "training",
    "leaderboard": "evaluation",
    "checkpoint": "training/track/checkpoint",
    "resume": "training/track/checkpoint",
    "retriever": "retrieval/searcher",
    "tool call": "reading",
    "judge": "envs/sotopia",
    "seed": "core/rng",
    "split": "core/tasks",
    "action mask": "envs/sokoban/array_env",
    "snapshot": "core/snapshots",
    "replay buffer": "training/collect/pool",
    "KL": "algos/loss",
    "LoRA": "inference/models/lora",
    "endpoint": "endpoint",
    "retry": "endpoint/sending",
    "cost": "evaluation/play/estimate",
}
"""A room or module, by a word that users of verl, TRL, Gymnasium or inspect_ai search for."""

SAME_WORDS = ("cli", "site")
"""Rooms that are not counted: commands and pages are named by the words that users know."""

MAX_CLAUSES = {structure.attribute_docstrings: 0.02, structure.comments: 0.02, structure.messages: 0.02}
"""Largest share of texts that begin without a subject."""


@cache
def first_lines() -> dict[str, str]:
    """Return the first line of each module's docstring, by the module's path."""
    lines = {}
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).with_suffix("").as_posix().removesuffix("/__init__")
        lines[name] = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]
    return lines


def places_of(word: str) -> set[str]:
    """Return the modules whose path, or whose docstring's first line, has a word, in the plural too."""
    pattern = re.compile(rf"\b{word.lower().replace(' ', '[ _-]')}(e?s)?\b")
    return {
        name
        for name, line in first_lines().items()
        if pattern.search(f"{name.replace('/', ' ').replace('_', ' ')}\n{line}".lower())
    }


@pytest.mark.parametrize("word", PLACES)
def test_a_word_of_the_field_leads_to_its_place(word):
    found = places_of(word)
    right = {name for name in found if f"{name}/".startswith(f"{PLACES[word]}/")}
    others = {name.partition("/")[0] for name in found - right} - {
        PLACES[word].partition("/")[0],
        *SAME_WORDS,
    }
    assert right, f"no first line of {PLACES[word]} has {word!r}"
    assert len(others) <= 3, sorted(found - right)


@pytest.mark.parametrize("kind", MAX_CLAUSES)
def test_texts_begin_with_their_subject(kind):
    texts = [(path, text) for path in sorted(PACKAGE.rglob("*.py")) for text in kind(path.read_text())]
    clauses = [f"{path.relative_to(PACKAGE)}: {text}" for path, text in texts if structure.is_clause(text)]
    assert len(clauses) <= MAX_CLAUSES[kind] * len(texts), "\n".join(clauses)
