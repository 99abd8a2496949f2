"""The ratchet: a figure that rises is seen, one that fell is kept, and a table shows what is recorded."""

from pathlib import Path

import pytest

from tests import ratchet, structure

FILES = {
    "agentgym/__init__.py": '"""A package."""\n',
    "agentgym/low.py": "X = 1\n",
    "agentgym/high.py": "import agentgym.low\n",
    "agentgym/room/__init__.py": "",
    "agentgym/room/one.py": 'Y: int = 2\n"""Number of rooms."""\n',
    "agentgym/room/two.py": "",
    "docs/page.md": "# Page\n",
    "README.md": "Two words.\n",
    **{f"{folder}/a.py": "1\n" for folder in ratchet.BESIDE},
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a small checkout with a record."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "tests").mkdir(exist_ok=True)
    ratchet.write(ratchet.measured(tmp_path), tmp_path)
    return tmp_path


def rises(root: Path) -> list[str]:
    ratchet.line_figures.cache_clear()
    return list(ratchet.rises(ratchet.measured(root), ratchet.recorded(root)))


PLANTED = {
    "agentgym/room/two.py": (
        "import agentgym.room.one\n",
        ["floors rose from 1 to 2", "arrows rose from 0 to 1"],
    ),
    "agentgym/room/three.py": ("Z = 1\n", ["rooms rose from 2 to 3"]),
    "agentgym/room/one.py": ('Y: int = 2\n"""Of the house."""\n', ["clauses rose from 0 to 1"]),
    "tests/a.py": ("1\n" * 102, ["tests: lines rose from 1 to 102"]),
    "agentgym/new/__init__.py": ("", ["agentgym/new: not in tests/ratchet.toml"]),
    "README.md": ("word " * 103, ["README.md: words rose from 2 to 103"]),
    "agentgym/low.py": ('"""Whoever calls it."""\n', ["agentgym: dialect rose from 0 to 1"]),
    "docs/new.md": ("word " * 101, ["docs: pages rose from 1 to 2", "docs: words rose"]),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_rise_is_named_and_recorded_by_write_alone(checkout: Path, name: str) -> None:
    assert rises(checkout) == []
    text, expected = PLANTED[name]
    (checkout / name).parent.mkdir(exist_ok=True)
    (checkout / name).write_text(text)
    found = rises(checkout)
    assert all(any(line in each for each in found) for line in expected), found
    now = ratchet.measured(checkout)
    ratchet.write(ratchet.lowered(now, ratchet.recorded(checkout)), checkout)
    assert rises(checkout) == found or name.endswith(".md")  # pages are counted as they are
    ratchet.write(now, checkout)
    assert rises(checkout) == []


def test_dialect_is_counted_by_kind() -> None:
    bad = (
        "Whoever builds a board plays it. Of models every action is played again. What is gone is left out.",
        "- Past turns told, and no wall is none.",
        "Two rows came to the same, in the place of three.\nOf 40 turns all had others.",
    )
    good = "Building a board replays it. We told nobody? What is a state hash? Most of the models are small."
    assert [ratchet.dialect(text) for text in bad] == [3, 2, 2]
    assert ratchet.dialect(good) == 1  # "told"


def test_what_fell_is_kept(checkout: Path) -> None:
    (checkout / "agentgym/high.py").unlink()
    now = ratchet.measured(checkout)
    assert (now["agentgym"]["rooms"], ratchet.recorded(checkout)["agentgym"]["rooms"]) == (2, 3)
    ratchet.write(ratchet.lowered(now, ratchet.recorded(checkout)), checkout)
    assert ratchet.recorded(checkout)["agentgym"]["rooms"] == 2
    (checkout / "agentgym/high.py").write_text("")
    assert "agentgym: rooms rose from 2 to 3" in rises(checkout)


def test_the_table_has_the_recorded_figures(checkout: Path) -> None:
    """The folders that have more rooms than are left out, and the whole package."""
    record = ratchet.recorded(checkout)
    record["agentgym/room"]["rooms"] = ratchet.SHOWN + 1
    rows = list(ratchet.table(record, checkout))
    assert rows[0].startswith("| folder | rooms |")
    assert [row for row in rows if row.startswith("| `")] == [
        f"| `agentgym/room` | {ratchet.SHOWN + 1} | 1 | 0 | 2 | 0% |"
    ]
    assert rows[-3:-1] == ["| modules | 6 |", "| imports | 1 |"]


SOURCE = """
A = 1
'''Of it.'''
class B:
    C: int
    '''What it costs.'''
    D = 2  # noqa: E501
    '''Offers.'''

# one comment
# of two lines
E = 3  # of it

# ---- errors
raise ValueError("before" + f"{A}")
raise ValueError(f"after {A}")
raise ValueError(f"{A} is odd")
raise ValueError
"""


def test_texts_of_a_module_are_found() -> None:
    assert list(structure.attribute_docstrings(SOURCE)) == ["Of it.", "What it costs.", "Offers."]
    assert list(structure.comments(SOURCE)) == ["one comment", "of it"]
    assert list(structure.messages(SOURCE)) == ["before", "after "]


CLAUSES = ("Of it.", "what it costs", "How many there are.", "None for nowhere.", "Left out, since it fails.")
SENTENCES = ("Offers.", "Whether it ends.", "Number of steps.", "Left margin.", "Empty lines.", "Ofen.")


@pytest.mark.parametrize("text", [*CLAUSES, *SENTENCES])
def test_clauses_are_told_from_sentences(text: str) -> None:
    assert structure.is_clause(text) == (text in CLAUSES)
