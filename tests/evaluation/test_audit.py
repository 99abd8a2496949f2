"""Audits: order statistics by closed forms and simulation, comparisons, hostile results."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from agentgym.errors import UsageError
from agentgym.evaluation.board.audit import (
    AuditedResult,
    audit,
    paired_difference,
    read_result,
    unpaired_difference,
)
from agentgym.evaluation.board.choosing import Choice, Interval, resampled_gain
from agentgym.evaluation.board.leaderboard import read_published
from agentgym.evaluation.board.published import Conditions, StatedCondition
from agentgym.io.records import read_toml
from benchmarks import choosing, conditions

ROOT = Path(__file__).parents[2]
PAPERS = ROOT / "benchmarks" / "published.toml"


@pytest.mark.parametrize(("chance", "best"), [(0.75, 82.6), (0.8, 86.9), (0.9, 95.0)])
def test_the_best_of_thirty_readings_of_128_tasks(chance, best):
    assert round(100 * Choice(128, 30).expected(chance), 1) == best


def test_few_tasks_by_hand():
    assert Choice(1, 2).expected(0.5) == pytest.approx(0.75)  # 1 - .5^2
    assert Choice(2, 2).outcomes(0.5) == pytest.approx([1 / 16, 8 / 16, 7 / 16])
    assert Choice(1, 2, 2).outcomes(0.5) == pytest.approx([1 / 16, 6 / 16, 9 / 16])
    assert Choice(2, 1, 2).outcomes(0.5) == pytest.approx([1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16])
    assert Choice(3).outcomes(0.0).tolist() == [1.0, 0.0, 0.0, 0.0]
    assert Choice(3, 5).outcomes(1.0).tolist() == [0.0, 0.0, 0.0, 1.0]


def test_the_success_behind_a_result():
    found = Choice(128, 30).true_success(Choice(128, 30).expected(0.8))
    assert found.value == pytest.approx(0.8)
    assert (round(found.low, 3), round(found.high, 3)) == (0.754, 0.829)
    one = Choice(10).true_success(1.0)  # mid-p: p^10 / 2 = .025
    assert (one.value, one.high) == (1.0, 1.0)
    assert one.low == pytest.approx(0.05**0.1)
    none = Choice(10, 4).true_success(0.0)
    assert (none.value, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(1.0 - (2 * 0.025) ** (1 / 40))


def test_a_gain_on_the_same_tasks_is_that_of_a_simulation():
    rng = np.random.default_rng(5)
    gains, truths = [], []
    for _ in range(20):
        chances = rng.beta(0.8, 0.3, size=128)
        gains.append(resampled_gain((rng.random((128, 4)) < chances[:, None]).astype(float), 30))
        readings = rng.binomial(1, chances, size=(900, 128)).mean(axis=1).reshape(30, 30)
        truths.append(readings.max(axis=0).mean() - chances.mean())
    assert np.mean(gains) == pytest.approx(np.mean(truths), abs=0.002)
    assert np.mean(gains) < Choice(128, 30).expected(0.73) - 0.73 - 0.01  # new tasks vary more


def test_the_committed_coverage_lies_within_its_bounds():
    cells = json.loads((ROOT / "benchmarks" / "choosing.json").read_text())
    assert len(cells) == 205
    assert choosing.page(cells) == (ROOT / "benchmarks" / "choosing.md").read_text()
    outside = [cell for cell in cells if not 93.0 <= cell["coverage"] <= 97.0]
    # of successes near the end, where the best of 30 has few values: too wide, never too narrow
    assert all(cell["of"] == "success" and cell["at"] == 0.95 and cell["coverage"] > 97.0 for cell in outside)


@pytest.mark.parametrize(("tasks", "readings", "success"), [(128, 30, 0.8), (140, 5, 0.65)])
def test_coverage_is_computed_again(tasks, readings, success):
    cells = json.loads((ROOT / "benchmarks" / "choosing.json").read_text())
    cell = {"of": "success", "tasks": tasks, "readings": readings, "seeds": 1, "at": success}
    [committed] = [each["coverage"] for each in cells if cell.items() <= each.items()]
    assert choosing.coverage(Choice(tasks, readings), success) == pytest.approx(committed, abs=1e-6)


def test_a_biased_interval_is_found(monkeypatch):
    wrong = Interval(0.87, 0.83, 0.93)  # of the reading, taken for one without a choice
    monkeypatch.setattr(choosing, "interval", lambda choice, wins: wrong)
    assert choosing.coverage(Choice(128, 30), 0.8) < 93.0


def test_paired_differences_by_hand():
    found = paired_difference(np.array([1.0] * 6 + [-1.0] * 2 + [0.0] * 90))  # Agresti and Min: n + 2 = 100
    half = 1.959964 * math.sqrt((9 / 100 - 0.04**2) / 100)
    assert found.value == pytest.approx(4 / 98)
    assert (found.low, found.high) == pytest.approx((0.04 - half, 0.04 + half), abs=1e-6)
    equal = paired_difference(np.zeros(98))
    assert (equal.value, equal.high) == pytest.approx((0.0, 1.959964 / 100), abs=1e-6)


def test_unpaired_differences_by_hand():
    found = unpaired_difference(Interval(0.5, 0.4, 0.62), Interval(0.8, 0.76, 0.83))
    assert found == Interval(pytest.approx(0.3), pytest.approx(0.3 - math.hypot(0.04, 0.12)),
                             pytest.approx(0.3 + math.hypot(0.03, 0.1)))  # fmt: skip
    assert unpaired_difference(None, found) is None


def played(name, outcomes, **facts):
    wins = {f"task {number}": (float(won),) for number, won in enumerate(outcomes)}
    known = {"environment": "Corridor", "panel": str(len(wins)), "task ids": str(len(wins)), **facts}
    return AuditedResult(
        name=name, success=sum(outcomes) / len(wins), tasks=len(wins), facts=known, wins=wins
    )


def test_a_verdict_on_the_same_tasks():
    one, other = played("A", [1] * 80 + [0] * 20), played("B", [1] * 90 + [0] * 10)
    found = audit(one, other)
    assert found.verdict == (
        "These were played on the same 100 tasks. B wins 10.0 points more [3.7, 15.9]. Neither says so, but "
        "choosing the best of 30 checkpoints on 100 tasks alone would give 6.8 (4.4 on the very same tasks), "
        "less than the difference."
    )
    assert (found.facts["task ids"], found.facts["prompt"]) == ("same", "not said")
    assert audit(other, one).verdict == found.verdict
    assert found.record()["first"]["facts"]["environment"] == "Corridor"


def test_another_prompt_and_other_tasks_are_said():
    one, other = played("A", [1, 0], prompt="ab", limit="50"), played("B", [1, 0], prompt="cd", limit="30")
    assert "on the same 2 tasks, but with another limit, another prompt." in audit(one, other).verdict
    met = {"met in training": "1 of 2"}
    assert "the same 2 tasks, 1 of them for training." in audit(played("A", [1, 0], **met), other).verdict
    assert (
        "They share 2 of 2 and 3 tasks, so tasks differ, too." in audit(one, played("B", [1, 0, 1])).verdict
    )
    with pytest.raises(UsageError, match="A is of Corridor, B of Maze"):
        audit(one, played("B", [1], environment="Maze"))


def test_the_words_of_papers_and_runs_are_not_compared():
    paper = read_result(f"{PAPERS}#StepPO#2#GiGPO#ALFWorld unseen")
    facts = audit(paper, played("A", [1, 0], split="valid_unseen")).facts
    assert (facts["environment"], facts["split"], facts["panel"]) == ("not said", "not said", "different")


def test_the_words_of_two_papers_are_not_compared():
    one, other = (read_result(f"{PAPERS}#{place}#WebShop") for place in ("3SPO#1#GRPO", "iStar#1#GRPO"))
    assert one.facts["split"] != other.facts["split"]
    found = audit(one, other)
    assert (found.facts["split"], found.facts["rule"]) == ("not said", "not said")
    assert "another split" not in found.verdict
    unseen, seen = (read_result(f"{PAPERS}#StepPO#2#GRPO#ALFWorld {split}") for split in ("unseen", "seen"))
    assert audit(unseen, seen).facts["split"] == "different"


def test_a_claim_is_held_against_what_choosing_gives():
    found = audit(read_result("A=80,n=134"), read_result("B=86.9,n=128,best-of=30"))
    assert found.verdict == (
        "They were played on different tasks, 134 and 128 of them. Both win equally often [-8.1, 7.6] once "
        "what choosing adds is taken off: this much play does not show a difference. Choosing the best of 30 "
        "checkpoints on 128 tasks alone gives 6.9, more than the difference."
    )
    unknown = audit(read_result("A=80"), read_result("B=90")).verdict
    assert "10.0 points more, without an interval: add ,n=TASKS to A" in unknown
    assert unknown.endswith("is unknown without a number of tasks.")


def test_a_spread_over_seeds_makes_the_interval():
    estimate = read_result("B=80,n=1000,seeds=3,spread=2").estimate
    assert (estimate.low, estimate.high) == pytest.approx(
        (0.8 - 0.049683, 0.8 + 0.049683), abs=1e-5
    )  # t = 4.3027


def test_a_paper_s_number_comes_with_what_the_paper_says():
    found = read_result(f"{PAPERS}#StepPO#2#GiGPO#ALFWorld unseen")
    assert found.success == pytest.approx(0.791)
    assert (found.tasks, found.seeds, found.readings) == (134, 3, 0)
    assert found.facts == {
        "environment": "ALFWorld unseen", "split": "valid-unseen", "panel": "134", "seeds": "3"
    }  # fmt: skip
    large = read_result(f"{PAPERS}#GiGPO#1#GiGPO w/ std#ALFWorld#Qwen2.5-7B-Instruct,n=128,best-of=30")
    assert (large.success, large.spread) == pytest.approx((0.908, 0.013))
    assert (large.tasks, large.readings) == (128, 30)
    assert read_result(f"{PAPERS}#iStar#1#GRPO#WebShop").facts["rule"] == "best score"
    assert "rule" not in read_result(f"{PAPERS}#GiGPO#1#GRPO#WebShop").facts


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nothing", "no such run"),
        ("A=101", "a number from 0 to 100, got '101'"),
        ("A=nan", "got 'nan'"),
        ("A=", "got ''"),
        ("A=80,n=0", "n must be a whole number from 1 to 20,000, got '0'"),
        ("A=80,n=1.5", "got '1.5'"),
        ("A=80,n=1e9", "got '1e9'"),
        ("A=80,n=20000,seeds=2", "tasks times seeds are more than 20,000"),
        ("A=80,best-off=3", "unknown setting 'best-off' (did you mean 'best-of'?)"),
        ("missing.toml#GiGPO#1#GRPO#ALFWorld", "no such file"),
        (f"{PAPERS}#GiGPO#1#GRP#ALFWorld", "did you mean 'GiGPO#1#GRPO#ALFWorld'?"),
        (f"{PAPERS}#GiGPO#1#GRPO#ALFWorld#a#b", "give PAPER#TABLE#METHOD#COLUMN"),
        (f"{PAPERS}#StepPO#6#PPO#one task, rollout, time", "is not a share: its unit is 's'"),
        (f"{PAPERS}#StepPO#4#step_gae .99#WebShop, steps, gamma", "is not a share"),
    ],
)
def test_hostile_results_are_one_line(text, complaint):
    with pytest.raises(UsageError) as error:
        read_result(text)
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


def test_conditions_are_of_tables_that_are_there_and_count_as_the_page_does():
    found = read_toml(Conditions, PAPERS.with_name("conditions.toml"))
    files = [read_published(PAPERS), read_published(PAPERS.with_name("published-2026.toml"))]
    columns = [(paper, column) for each in files for paper in each.paper for column in paper.column]
    for each in found.condition:
        assert any(each.holds(*column) for column in columns), each
    record = conditions.count()
    total = dict(record["counts"]["all"])
    assert total == {
        "numbers": 1192,
        "split": 525,
        "panel": 346,
        "seeds": 797,
        "rule": 83,
    }  # none has all four
    assert conditions.page(record) == (ROOT / "benchmarks" / "conditions.md").read_text()


def test_a_later_condition_counts():
    [paper] = [paper for paper in read_published(PAPERS).paper if (paper.name, paper.table) == ("GiGPO", "2")]
    first, second = (
        StatedCondition(paper="GiGPO", seeds=(3, "a")),
        StatedCondition(paper="GiGPO", table=("2",), seeds=(1, "b")),
    )
    other = StatedCondition(paper="GiGPO", environment=("WebShop",), split=("dev", "c"))
    assert Conditions((first, second, other)).of(paper, paper.column[0]) == {"seeds": (1, "b")}


def test_last_checkpoints_were_not_chosen():
    one, other = played("A", [1, 0], rule="last"), played("B", [1, 1], rule="last")
    assert audit(one, other).verdict.endswith(
        "Both are the last checkpoint of their training, so neither was chosen among several."
    )
    assert "best of 30" in audit(one, played("B", [1, 1])).verdict
