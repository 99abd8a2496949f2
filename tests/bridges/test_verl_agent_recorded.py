"""What verl-agent's own workers did, replayed over our environment; and the report on both.

`make bridge-verl-agent CHECKOUT=path` compares with a checkout itself, and records.
"""

import json
import lzma
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.core.tasks import ListTaskSet, Task
from agentgym.envs.webshop.data.importer import open_catalogue
from agentgym.envs.webshop.engine.goals import Prices, limit_text, make_goals
from benchmarks.bridges.verl_agent import write_levels
from benchmarks.bridges.verl_agent_peer import digest
from benchmarks.bridges.verl_agent_report import cost_table, markdown
from tests.bridges.verl_agent_stand_in import config, make_envs, standing_in

ROOT = Path(__file__).resolve().parents[2]
RECORDED = Path(__file__).with_name("verl_agent")
REPORT = ROOT / "benchmarks" / "bridges" / "verl_agent.json"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    yield from standing_in(tmp_path, monkeypatch)


def replay(suite, folder):
    """Play what was recorded; return how many steps were compared."""
    record = json.loads(lzma.decompress((RECORDED / f"{suite}.json.xz").read_bytes()))
    options = {"webshop": {"tagger": "blank-en"}, "sokoban": {"dataset": str(folder)}}.get(suite, {})
    if suite == "sokoban":
        write_levels(record, folder)
    managers = dict(zip(("train", "valid"), make_envs(config(suite, 2, 4, 4, **options)), strict=True))
    compared = 0
    goals = known_goals() if suite == "webshop" else {}
    for number, played in enumerate(record):
        manager, tasks = managers[played["split"]], played["tasks"]
        if suite == "sokoban":
            tasks = [f"{number}.xsb#{row}" for row in range(len(tasks))]
        elif suite == "webshop":
            tasks = [priced(goal, goals) for goal in tasks]
            held = {task.id: task for task in tasks}.values()
            manager.envs.envs.prototype.tasks = ListTaskSet("recorded", held, dataset="-", suite="webshop")
            tasks = [task.id for task in tasks]
        observations, infos = manager.reset([{"task": task} for task in tasks])
        assert [
            digest(*pair) for pair in zip(observations["text"], reported(suite, infos), strict=True)
        ] == played["start"]
        for step in played["steps"]:
            observations, rewards, dones, infos = manager.step(step["actions"])
            for row, active in enumerate(step["active"]):
                if not active:
                    assert (rewards[row], dones[row]) == (0.0, True)
                    continue
                ours = (rewards[row], dones[row], infos[row]["won"])
                assert ours == (step["rewards"][row], step["dones"][row], step["won"][row])
                if not dones[row]:
                    seen = digest(observations["text"][row], reported(suite, infos)[row])
                    assert seen == step["seen"][row], (step["actions"][row], observations["text"][row])
                compared += 1
    return compared


def known_goals():
    """Return all goals of the products, by id."""
    goals = make_goals(open_catalogue("webshop/small"), "synthetic", Prices())
    return {goal.id: goal for goal in goals}


def priced(named, goals):
    """Return a goal with the price limit that was recorded, as a task."""
    goal, limit = goals[named["id"]], named["price_upper"]
    text = goal.text.removesuffix(limit_text(goal.price_upper)) + limit_text(limit)
    return Task(goal.id, replace(goal, text=text, price_upper=limit), goal.id)


def reported(suite, infos):
    """Return infos with what the checkout's have by other names."""
    if suite != "alfworld":
        return infos
    return [{"admissible_commands": list(info["admissible_actions"])} for info in infos]


@pytest.mark.assets
@pytest.mark.parametrize("suite", ["alfworld", pytest.param("webshop", marks=pytest.mark.peer)])
def test_recorded_exchanges_over_official_data(suite, checkout):
    assert replay(suite, checkout) > 100


def test_recorded_exchanges_of_sokoban(checkout):
    assert replay("sokoban", checkout / "levels") > 100


def test_the_pages_show_the_costs():
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    report = json.loads(REPORT.read_text(encoding="utf-8"))
    text = REPORT.with_suffix(".md").read_text(encoding="utf-8")
    assert text == markdown(report)
    assert "\n".join(cost_table(report["cost"])) in text
    medians = report["cost"]["medians"] | {"drawn": report["cost"]["theirs, 128 by extrapolation"]}
    for name, digits in (("ours, 128", 2), ("drawn", 0)):
        assert f"{medians[name]['seconds']:.{digits}f} |" in page


def test_the_costs_are_as_promised():
    cost = json.loads(REPORT.read_text(encoding="utf-8"))["cost"]
    assert min(cost["ratios"]["seconds"]) >= 50
    assert min(cost["ratios"]["bytes"]) >= 20
    drawn, few, many = (
        cost["theirs, 128 by extrapolation"],
        *(cost["medians"][f"theirs, {rows}"] for rows in (4, 8)),
    )
    for name in ("bytes", "seconds", "processor seconds"):
        assert drawn[name] == pytest.approx(few[name] + 31 * (many[name] - few[name]), rel=0.01)
    assert drawn["steps a second"] == pytest.approx(128 * 50 / drawn["seconds"], rel=0.01)
    assert drawn["processes"] == many["processes"] + 120


def test_the_report_has_no_differences():
    report = json.loads(REPORT.read_text(encoding="utf-8"))
    assert set(report["suites"]) == {"alfworld", "webshop", "sokoban"}
    for found in report["suites"].values():
        assert found["episodes"] >= 200
        assert set(found["differences"].values()) == {0}
        assert len(found["differences"]) == 7
