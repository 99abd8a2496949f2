"""docs/training_walk.md names the functions between sampling and the update, each beside its caller."""

import re

import pytest

from tools.walk import PAGE, Row, rows, written

MAX_LINES = 900
MAX_WORDS = 500
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = rows(TEXT)


def test_the_rows_are_numbered_and_the_page_has_no_other_tables_of_functions():
    assert [row.number for row in ROWS] == list(range(1, len(ROWS) + 1))
    assert len(ROWS) == len(re.findall(r"^\| \d+ \|", TEXT, re.MULTILINE)) > 30


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.function)
def test_each_function_exists_and_its_caller_stands_before_it_and_names_it(row):
    assert row.length > 0
    if row.number == 1:
        assert row.caller is None
    else:
        assert row.caller < row.number
        assert ROWS[row.caller - 1].names(row)


def test_the_walk_is_short_and_its_numbers_are_the_present_ones():
    assert sum(row.length for row in ROWS) <= MAX_LINES
    assert written(TEXT) == TEXT, "run python -m tools.walk"
    assert len(re.findall(r"[A-Za-z]\w*", re.sub(r"`[^`]*`", "", TEXT))) <= MAX_WORDS


def test_a_walk_that_skips_a_function_or_invents_one_is_found():
    first, last = ROWS[0], next(row for row in ROWS if row.function == "clipped_surrogate")
    assert not first.names(last)
    with pytest.raises(LookupError, match=r"has no Trainer\._gone"):
        _ = Row(1, "training/loop.py", "Trainer._gone", None, 1, "nothing").length


def test_the_optimiser_steps_in_a_function_of_the_walk():
    (row,) = (row for row in ROWS if row.function == "Learner._step")
    assert row.names(Row(0, "", "step", None, 0, ""))
