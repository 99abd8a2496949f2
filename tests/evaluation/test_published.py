"""The papers' tables: all of them, as printed, each with how it came about."""

import json
import os
from pathlib import Path

import pytest

from agentgym.evaluation.board.leaderboard import read_published

ROOT = Path(__file__).parents[2]
TABLES = {
    "gigpo_table1": ("GiGPO", "1"),
    "gigpo_table2_vlm_3b": ("GiGPO", "2"),
    "gigpo_table3_webshop_1.5b": ("GiGPO", "3"),
    "gigpo_fig5_group_size_percent": ("GiGPO", "Figure 5"),
    "graphgpo_table1": ("GraphGPO", "1"),
    "graphgpo_table2_sokoban_vl_3b": ("GraphGPO", "2"),
    "graphgpo_table3": ("GraphGPO", "3"),
    "graphgpo_table4_omega_alfworld": ("GraphGPO", "4"),
    "graphgpo_table5_omega_webshop_success": ("GraphGPO", "5"),
    "graphgpo_table6_noise_webshop_success": ("GraphGPO", "6"),
    "graphgpo_table7_group_size_webshop_success": ("GraphGPO", "7"),
    "graphgpo_fig1_percent_of_steps": ("GraphGPO", "Figure 1"),
    "3spo_table1": ("3SPO", "1"),
    "3spo_table2_ablation_1.5b": ("3SPO", "2"),
    "3spo_table3_coverage": ("3SPO", "3"),
    "3spo_table5_xi_zeta_success": ("3SPO", "5"),
    "3spo_table6_alpha": ("3SPO", "6"),
    "steppo_table2": ("StepPO", "2"),
    "steppo_table3_paper_search": ("StepPO", "3"),
    "steppo_table4_webshop_gamma": ("StepPO", "4"),
    "istar_table1": ("iStar", "1"),
    "istar_table2_sotopia": ("iStar", "2"),
    "istar_table3_ablation_one_seed": ("iStar", "3"),
    "istar_table4_webshop_1.5b_one_seed": ("iStar", "4"),
}
METRICS = {"success", "score", "accuracy", "F1", "recall", "goal"}
SPECIAL = {"share of steps", "share of step groups", "rollouts", "unique states", "ratio", "response tokens"}
SPECIAL |= {"search calls", "expand calls", "steps", "rollout", "actor update", "critic update", "run"}
TIMES = {
    ("StepPO", "6"): [[14.12], [76.65], [104.6], [14.01], [74.35], [93.18]],
    ("3SPO", "7"): [[6.0], [6.0]],
}
"""Seconds of an iteration's stages, and days of a run."""


@pytest.fixture(scope="module")
def papers():
    published = read_published(ROOT / "benchmarks" / "published.toml")
    return {(paper.name, paper.table): paper for paper in published.paper}


def test_every_table_is_there_with_its_protocol(papers):
    assert sorted(papers) == sorted([*TABLES.values(), *TIMES])
    for place, printed in TIMES.items():
        assert [list(cell) for row in papers[place].row for cell in row.cells] == printed
    for paper in papers.values():
        assert paper.title
        assert paper.protocol
        assert {column.metric for column in paper.column} <= METRICS | SPECIAL
        for row in paper.row:
            for column, cell in zip(paper.column, row.cells, strict=True):
                most = {"%": 100.0, "of 100": 100.0, "of 10": 10.0}.get(column.unit)
                assert most is None or all(0.0 <= number <= most for number in cell)


def numbers(value):
    """Every cell below a value: a list of numbers is one, unless its columns have names."""
    if isinstance(value, dict):
        columns = "columns" in value
        for key, inner in value.items():
            if key == "columns":
                continue
            if columns or (isinstance(inner, list) and "->" in key):
                yield from ((float(number),) for number in inner)
            else:
                yield from numbers(inner)
    elif isinstance(value, list):
        yield tuple(float(number) for number in value if number is not None)
    elif isinstance(value, int | float):
        yield (float(value),)


@pytest.mark.assets
def test_every_number_is_as_it_was_read_from_the_papers(papers):
    path = Path(os.environ["AGENTGYM_DATA"]).parent / "specs" / "published.json"
    read = json.loads(path.read_text())["tables"]
    assert read.keys() == TABLES.keys()
    for name, place in TABLES.items():
        printed = [cell for row in papers[place].row for cell in row.cells if cell]
        assert sorted(printed) == sorted(numbers(read[name])), name
