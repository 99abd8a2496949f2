"""What `make check-recipes` finds: nothing unexplained, and whatever is changed."""

from dataclasses import replace

import pytest

from agentgym.recipes import find_recipe
from tests.recipes import check_recipes
from tests.recipes.check_recipes import Verdict, judge, judge_runs, judge_sources, lines
from tests.recipes.paper_rows import Paper, Print, Run, Silent

GRPO = find_recipe("gigpo/grpo-webshop")


def test_every_run_of_the_papers_is_a_recipe_and_every_difference_is_explained():
    verdict = judge()
    assert verdict.unexplained == []
    assert verdict.compared > 2500
    assert {line.departs for line in verdict.departures.values()} == {True}
    assert set(verdict.sources) == {"a paper", "public code", "nowhere"}
    assert "0 unexplained" in lines(verdict)[-2]


def row(setting, value, **changes):
    facts = {"algorithms": ("grpo",), "envs": (), "printed": "x", "place": "Table 9", **changes}
    return Print(setting=setting, value=value, **facts)


def found(monkeypatch, *prints, variant=""):
    """Return what is unexplained of GRPO on WebShop, were a paper to print this."""
    run = Run(place="Table 9", algorithms=("grpo",), envs=("WebShop",), models=("x",), variant=variant)
    paper = Paper(title="", arxiv="", text="", runs=(run,), prints=prints, silent=())
    monkeypatch.setattr(check_recipes, "paper", lambda name: paper)
    check_recipes.runs.cache_clear()
    verdict = Verdict()
    judge_runs("gigpo", verdict)
    check_recipes.runs.cache_clear()
    return verdict


@pytest.mark.parametrize(
    ("setting", "value", "right"),
    [
        ("rollout.group_size", 8, True),
        ("rollout.group_size", 4, False),
        ("algorithm_options.std", True, True),
        ("algorithm_options.std", 1, False),  # no number
        ("algorithm_options.singleton", "zero", True),  # a default
        ("env_options.hide_score", True, False),
        ("objective.dual_clip", 3, True),
        ("prompting.context", "append", False),
    ],
)
def test_a_value_is_the_papers_or_unexplained(setting, value, right, monkeypatch):
    verdict = found(monkeypatch, row(setting, value))
    assert (verdict.unexplained == []) == right
    assert verdict.departures == {}


@pytest.mark.parametrize(("value", "explained"), [("recompute", True), ("bypass", False)])
def test_a_departure_says_what_the_paper_has(value, explained, monkeypatch):
    verdict = found(monkeypatch, row("learner.old_log_probs", value))
    assert (verdict.unexplained == []) == explained == bool(verdict.departures)


def test_a_variant_of_the_paper_is_one_of_the_command_line(monkeypatch):
    assert "no variant" in found(monkeypatch, variant="with something else").unexplained[0]
    words = {("gigpo", "grpo", "v"): ("--set", "rollout.group_size=8")}
    monkeypatch.setattr(check_recipes, "VARIANTS", words)
    assert "changes nothing" in found(monkeypatch, variant="v").unexplained[0]
    assert found(monkeypatch, row("rollout.group_size", 8, variant="v"), variant="v").unexplained == []
    words["gigpo", "grpo", "v"] = ("--set", "rollout.group_size=4")
    assert found(monkeypatch, row("rollout.group_size", 8), variant="v").unexplained == []  # it is about that
    assert found(monkeypatch, row("rollout.group_size", 6, variant="v"), variant="v").unexplained


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("GiGPO, Appendix D.1", ""),
        ("GiGPO, Appendix D", "says nothing of it"),
        ("langfengQ/verl-agent@20bd331b:examples/gigpo_trainer/run_alfworld.sh:env.rollout.n", ""),
        ("langfengQ/verl-agent@20bd331b:examples/gigpo_trainer/run_alfworld.sh:env.seed", "0 there"),
        ("verl-agent: verl/trainer/config/ppo_trainer.yaml", "no paper and no file"),
        ("verl-agent", "no paper and no file"),
        ("printed nowhere: a guess", ""),
        ("a guess", "no paper and no file"),
    ],
)
def test_a_source_prints_what_it_is_cited_for(source, problem, monkeypatch):
    if problem.startswith("says"):
        silent = (Silent(setting="rollout.group_size"),)
        paper = Paper(title="", arxiv="", text="", runs=(), prints=(), silent=silent)
        monkeypatch.setattr(check_recipes, "paper", lambda name: paper)
    verdict = Verdict()
    setting = replace(GRPO.settings["rollout.group_size"], source=source)
    judge_sources(replace(GRPO, settings={"rollout.group_size": setting}), verdict)
    assert [problem in line for line in verdict.unexplained] == ([True] if problem else [])
