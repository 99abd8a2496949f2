"""The legend of training's lines."""

import io
import re

import pytest
from rich.console import Console

from agentgym.history.console import ConsoleLog
from agentgym.history.metrics import Evaluated, Outcomes, SplitOutcomes
from tests.iterations import make_metrics, make_run


def shown(*, terminal, width):
    file = io.StringIO()
    log = ConsoleLog(3, console=Console(file=file, width=width, force_terminal=terminal))
    for metrics in make_run(3):
        log.write(metrics)
    log.close()
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", file.getvalue())


def test_a_terminal_has_a_legend_once_and_the_time_left():
    out = shown(terminal=True, width=100)
    said = " ".join(out.split())
    assert said.count("usable: groups whose returns differ.") == 1
    assert "kl: divergence from the sampling policy." in said
    assert "secs: seconds of the iteration; then its parts: sampling" in said
    assert re.search(r"training .* 3/3 \d:\d\d:\d\d left \d:\d\d:\d\d", out)
    assert max(map(len, re.split(r"[\r\n]+", out))) <= 100


@pytest.mark.parametrize(
    ("width", "heading", "fits"),
    [(30, "usable", True), (30, "kl", False), (64, "secs", False), (65, "secs", True)],
)
def test_the_legend_is_of_the_columns_that_fit(width, heading, fits):
    said = " ".join(shown(terminal=True, width=width).split())
    assert (f" {heading}: " in said) == fits


def test_a_file_has_a_legend_and_rows():
    out = shown(terminal=False, width=100)
    assert " ".join(out.split()).count("usable: groups whose returns differ.") == 1
    assert [line.split()[0] for line in out.splitlines()[-4:]] == ["iter", "1", "2", "3"]
    assert max(map(len, out.splitlines())) <= 100
    assert " left " not in out


def test_nothing_is_printed_before_the_first_row():
    file = io.StringIO()
    ConsoleLog(3, console=Console(file=file, width=100)).close()
    assert file.getvalue() == ""


def test_a_collapse_is_named_once():
    file = io.StringIO()
    log = ConsoleLog(20, console=Console(file=file, width=100))
    for iteration in range(1, 21):
        log.write(make_metrics(iteration, success=0.7 if iteration <= 10 else 0.1))
    log.close()
    (line,) = (line for line in file.getvalue().splitlines() if "collapsed" in line)
    assert line.startswith(
        "success has collapsed: 70% were won up to iteration 5, less than half of that since"
    )
    assert "since iteration 13" in line
    assert "lower learner.learning_rate, or raise learner.entropy_coefficient" in line


def test_splits_and_types_stand_below_their_evaluation():
    file = io.StringIO()
    log = ConsoleLog(1, console=Console(file=file, width=100))
    types = {
        "clean": Outcomes(episodes=2, success=0.5, score=0.5),
        "heat": Outcomes(episodes=1, success=0, score=0),
    }
    seen = SplitOutcomes(episodes=3, success=1 / 3, score=1 / 3, types=types)
    unseen = SplitOutcomes(episodes=3, success=0.0, score=0.0)
    evaluation = Evaluated(
        episodes=3, success=1 / 3, score=1 / 3, types=types, splits={"seen": seen, "unseen": unseen}
    )
    log.write(make_metrics(1, evaluation=evaluation))
    row, *parts = file.getvalue().splitlines()[-3:]
    assert row.split()[:3] == ["1", "1.0%", "33.3%"]
    assert [part.strip() for part in parts] == ["seen 33.3%: clean 50.0%, heat 0.0%", "unseen 0.0%"]
