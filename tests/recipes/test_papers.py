"""The rows typed from the papers: their form, and that each setting is one of a run."""

import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

from agentgym.algos.table import ALGORITHMS, find_algorithm
from agentgym.core.options import options_of
from agentgym.prompts.settings import Prompting
from agentgym.registration import ENVIRONMENTS, class_of, suite_spec
from agentgym.training.config import TrainConfig, config_to_json, override
from agentgym.training.learner.config import RewardModelConfig
from tests.recipes.paper_rows import PAPERS, Paper, Print, Silent, read_paper, read_tables

TABLES = read_tables()
NUMBERED = re.compile(r"(?:Table|Figure) \d+")
WORDS = 8

NEEDS = {("algorithm_options.match", "embedding"): {"encoder": "policy"}}
"""Settings without which a value is refused."""


@pytest.fixture(params=PAPERS)
def paper(request: pytest.FixtureRequest) -> Paper:
    return read_paper(request.param)


def env_id(name: str) -> str:
    return f"agentgym/{name}-v0"


def pairs(paper: Paper, row: Print | Silent) -> Iterator[tuple[str, str]]:
    """Yield the algorithms and environments that a row holds for."""
    for algorithm in row.algorithms or paper.algorithms:
        for env in row.envs or paper.envs:
            yield algorithm, env


def config_of(algorithm: str, env: str) -> TrainConfig:
    prompting = Prompting.default(suite_spec(env_id(env)).prompt)
    return TrainConfig(algorithm=algorithm, env_id=env_id(env), prompting=prompting)


def check_setting(setting: str, algorithm: str, env: str) -> None:
    """Fail unless it is a setting of such a run."""
    part, _, name = setting.rpartition(".")
    if part == "algorithm_options":
        assert name in find_algorithm(algorithm).options, f"{setting} of {algorithm}"
    elif part == "env_options":
        assert name in options_of(class_of(env_id(env))), f"{setting} of {env}"
    elif part == "reward_model":
        assert name in {entry.name for entry in fields(RewardModelConfig)}, setting
        assert find_algorithm(algorithm).reward_model, f"{setting} of {algorithm}"
    else:
        config = config_of(algorithm, env)
        table: Any = {**config_to_json(config), "objective": config_to_json(config.loss)}  # type: ignore[arg-type]
        for key in setting.split("."):
            assert key in table, setting
            table = table[key]


def test_runs_are_of_known_algorithms_and_environments(paper: Paper) -> None:
    for run in paper.runs:
        assert run.place
        assert set(run.algorithms) <= set(ALGORITHMS), run
        assert {env_id(name) for name in run.envs} <= set(ENVIRONMENTS), run
        assert run.algorithms, run
        assert run.envs, run
        assert run.models or run.ambiguous, run
    keys = [(run.place, *sorted(run.algorithms), *run.envs, *run.models, run.variant) for run in paper.runs]
    assert len(set(keys)) == len(keys)


def test_printed_settings_exist_and_their_values_are_taken(paper: Paper) -> None:
    for row in paper.prints:
        for algorithm, env in pairs(paper, row):
            if row.setting:
                check_setting(row.setting, algorithm, env)
            if row.setting and row.value != "":
                needed = NEEDS.get((row.setting, str(row.value)), {})
                override(config_of(algorithm, env), {**needed, row.setting: row.value})


def test_environments_take_the_printed_options(paper: Paper) -> None:
    for row in paper.prints:
        part, _, name = row.setting.partition(".")
        if part == "env_options" and row.value != "":
            for _, env in pairs(paper, row):
                options_of(class_of(env_id(env)))[name].check(
                    tuple(row.value) if isinstance(row.value, list) else row.value
                )


def test_rows_are_short_placed_and_of_the_papers_runs(paper: Paper) -> None:
    ran = {(name, run.variant) for run in paper.runs for name in run.algorithms}
    for row in paper.prints:
        assert row.place, row
        assert 1 <= len(row.printed.split()) <= WORDS, row
        assert set(row.algorithms) <= set(paper.algorithms), row
        assert {env_id(name) for name in row.envs} <= set(ENVIRONMENTS), row
        assert not row.variant or {(name, row.variant) for name in row.algorithms} <= ran, row
    for silent in paper.silent:
        for algorithm, env in pairs(paper, silent):
            check_setting(silent.setting, algorithm, env)


def test_one_place_prints_one_value_of_a_setting(paper: Paper) -> None:
    """Another value is of another algorithm, environment or variant, or the row says what contradicts it."""
    known: dict[tuple[str, ...], Print] = {}
    for row in paper.prints:
        if row.setting and row.value != "" and not row.ambiguous:
            for pair in pairs(paper, row):
                first = known.setdefault((row.setting, row.variant, *pair), row)
                assert first.value == row.value, (first, row)


def test_no_silent_setting_is_printed(paper: Paper) -> None:
    printed = {
        (row.setting, *pair)
        for row in paper.prints
        if row.value != "" and not row.variant
        for pair in pairs(paper, row)
    }
    for row in paper.silent:
        for pair in pairs(paper, row):
            assert (row.setting, *pair) not in printed, (row, pair)


def test_every_table_and_figure_is_listed_once() -> None:
    listed = [(table.paper, table.place) for table in TABLES]
    assert len(set(listed)) == len(listed)
    for name in PAPERS:
        for kind in ("Table", "Figure"):
            numbers = sorted(int(place.split()[1]) for at, place in listed if at == name and kind in place)
            assert numbers == list(range(1, len(numbers) + 1)), (name, kind)


def test_runs_are_those_of_the_listed_tables(paper: Paper) -> None:
    name = next(key for key in PAPERS if read_paper(key) == paper)
    own = {table.place: table for table in TABLES if table.paper == name}
    ran = {place for run in paper.runs for place in NUMBERED.findall(run.place)}
    assert ran <= set(own)
    assert {place for place, table in own.items() if table.kind == "training"} <= ran
    for table in own.values():
        assert table.kind in ("drawing", "settings") or table.quantity, table
