"""Data that change at their path: an environment made again in the same process plays the new ones."""

import os
from functools import partial
from pathlib import Path

import pytest

from agentgym.data.recordfile import open_unchanged
from agentgym.envs.multihop.env import HotpotQAEnv, MuSiQueEnv, TwoWikiEnv
from agentgym.envs.papersearch.env import PaperSearchEnv
from agentgym.envs.sotopia.source import open_tasks
from agentgym.envs.webshop.source import load_world
from tests.multihop import copies as questions
from tests.papersearch import test_data as papers
from tests.sotopia import files as talks
from tests.webshop import upstream as shop


@pytest.fixture(autouse=True)
def own_places(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))


def tasks_of(make, put, *contents):
    """Return how many tasks each content has; what stays is opened once."""
    found = []
    for content in contents:
        put(content)
        first, second = make(), make()
        assert first.tasks is second.tasks
        found.append(len(first.tasks))
    return found


@pytest.mark.parametrize(
    ("kind", "name", "record"),
    [
        (HotpotQAEnv, questions.DEV, questions.hotpot),
        (TwoWikiEnv, "dev.json", questions.hotpot),
        (MuSiQueEnv, "musique_ans_v1.0_dev.jsonl", questions.musique),
    ],
)
@pytest.mark.parametrize("corpus", ["union", "own"])
def test_questions(kind, name, record, corpus, tmp_path):
    def put(count):
        rows = [record(f"2hop__{number}", question=f"{number}?") for number in range(count)]
        questions.write(tmp_path / name, rows)

    make = partial(kind, dataset=str(tmp_path / name), split="dev", corpus=corpus)
    assert tasks_of(make, put, 2, 3) == [2, 3]


def test_papers_and_their_queries(tmp_path):
    def put(content):
        papers.write_lines(tmp_path / "papers.jsonl", papers.ARXIV[: content[0]])
        papers.write_lines(tmp_path / "AutoScholarQuery_dev.jsonl", papers.QUERIES[: content[1]])

    make = partial(PaperSearchEnv, dataset=str(tmp_path), split="dev")
    assert tasks_of(make, put, (3, 1), (3, 2)) == [1, 2]
    before = make().world
    put((4, 2))
    assert (len(before.corpus), len(make().world.corpus)) == (3, 4)


def test_shops(tmp_path):
    def opened(count):
        shop.write(tmp_path, wishes={"B0": shop.WISHES["B0"][:count]})
        first, second = (load_world(str(tmp_path), tagger="words") for _ in range(2))
        assert first is second
        return len(list(first.catalogue.instructions("human")))

    assert [opened(1), opened(2)] == [1, 2]


def test_scenarios(tmp_path):
    def opened(count):
        talks.write_copy(tmp_path)
        talks.write_lines(tmp_path / "env_agent_combo_storages.jsonl", talks.COMBINATIONS[:count])
        (tmp_path / "ampo_env_agent_combos.json").unlink()
        first, second = (open_tasks(str(tmp_path), "all", "self-chat") for _ in range(2))
        assert first is second
        return len(first)

    assert [opened(2), opened(3)] == [2, 3]


def test_a_file_that_replaces_one_of_the_same_size_and_time(tmp_path):
    path, other = tmp_path / "a", tmp_path / "b"
    for each in (path, other):
        each.write_text(each.name)
        os.utime(each, (1, 1))
    assert open_unchanged(path, "texts", Path.read_text) == "a"
    other.replace(path)
    assert open_unchanged(path, "texts", Path.read_text) == "b"
