"""The built-in graph and its queries, and how they are played by rule and by labels."""

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from agentgym.agents.random import RandomPolicy
from agentgym.envs.papersearch.builtin.graph import SIZE, SUBJECTS, builtin_graph, paper_id
from agentgym.envs.papersearch.builtin.queries import MAX_PAPERS, MIN_PAPERS, SPLITS, builtin_topics
from agentgym.envs.papersearch.builtin.words import METHODS
from agentgym.envs.papersearch.engine.selectors import ASKING
from agentgym.envs.papersearch.env import PaperSearchEnv, PaperSearchVectorEnv
from agentgym.envs.papersearch.oracle import PaperOracle
from agentgym.envs.papersearch.rules import make_collector
from agentgym.errors import UnsupportedEnvError, UsageError
from agentgym.retrieval.analysis import Analyser
from tests.policy_requests import request_of

ROOT = Path(__file__).parents[2]

CORPUS = "3eddaca9a237b39c630820fa1b90520f2c93056c240dda97a3833ace2980ede8"
"""sha256 of the built-in corpus: its words, rules and citations."""


@pytest.fixture(scope="module")
def env():
    return PaperSearchEnv(split="test")


def test_the_papers_are_these(env):
    assert env.world.corpus.sha256 == CORPUS


def test_papers_cite_earlier_ones_and_some_are_cited_often(env):
    graph = env.world.corpus.graph
    counts = np.diff(graph.citing.starts)
    assert len(env.world.corpus) == SIZE
    assert 5 < np.diff(graph.cited.starts).mean() < 9
    assert counts.max() > 10 * np.median(counts)
    owners = np.repeat(np.arange(SIZE), np.diff(graph.cited.starts))
    assert (graph.dates[graph.cited.papers] <= graph.dates[owners]).all()
    assert (graph.cited.papers < owners).all()
    assert len({paper_id(number) for number in range(SIZE)}) == SIZE


def test_names_of_one_subject_share_no_word_that_matters():
    analyser = Analyser()
    asking = set(analyser.terms(" ".join(ASKING)))
    for names in (*(names for _, names in SUBJECTS), *METHODS):
        terms = [set(analyser.terms(name)) - asking for name in names]
        assert all(terms)
        assert sum(map(len, terms)) == len(set.union(*terms)), names


def test_what_is_asked_for_are_the_papers_of_subject_and_facet():
    graph = builtin_graph()
    members = defaultdict(list)
    for paper, design in zip(graph.papers, graph.designs, strict=True):
        for kind, facet in (("method", design.method), ("setting", design.setting)):
            members[str(design.subject), kind, str(facet)].append((paper.id, design.date))
    for split in SPLITS:
        for task in builtin_topics(split):
            _, subject, kind, facet, _ = task.source_id.split("/")
            wanted = {id for id, date in members[subject, kind, facet] if date <= task.content.date}
            assert set(task.content.gold) == wanted
            assert MIN_PAPERS <= len(wanted) <= MAX_PAPERS
            assert task.type == kind


def test_no_pair_of_subject_and_facet_is_in_two_splits():
    pairs = {split: {task.source_id.rpartition("/")[0] for task in builtin_topics(split)} for split in SPLITS}
    assert sum(map(len, pairs.values())) == len(set.union(*pairs.values())) > 300
    assert [len(builtin_topics(split)) for split in SPLITS] == [2796, 340, 219]
    builtin_topics("test").verify()
    with pytest.raises(UsageError, match="choose one of train, valid, test"):
        builtin_topics("tests")


def test_opening_is_quick():
    """In a process of its own: what is imported is not counted."""
    code = (
        "import agentgym.envs.papersearch.env as e; from tests.pace import within;"
        "within(3_000, e.PaperSearchEnv, attempts=1)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def ask(policy, env, task):
    """Play a task; return the last info."""
    observation, info = env.reset(options={"task": task})
    ended = False
    while not ended:
        extra = {"goal": info["goal"]}
        asked = request_of(env, info, observation=observation, seed=len(task), extra=extra)
        observation, _, terminated, truncated, info = env.step(policy.act([asked])[0].action)
        ended = terminated or truncated
    return info


def mean_score(policy, env, key="score"):
    ids = [env.tasks[number].id for number in range(0, 219, 6)]
    return float(np.mean([ask(policy, env, task)[key] for task in ids]))


def test_the_oracle_wins_every_task_it_plays(env):
    assert mean_score(env.oracle(), env, "won") == 1.0
    assert isinstance(env.oracle(), PaperOracle)


def test_the_rule_is_far_above_chance_and_below_the_oracle(env):
    envs = PaperSearchVectorEnv(1, split="test")
    rule, chance = mean_score(make_collector(envs), env), mean_score(RandomPolicy("template"), env)
    assert chance < 0.1 < 0.6 < rule < 0.9


def test_with_candidates_chance_finds_something():
    env = PaperSearchEnv(split="test", actions="candidates", max_steps=12)
    chance, best = mean_score(RandomPolicy(), env), mean_score(env.oracle(), env)
    assert 0.2 < chance < 0.6 < 0.8 < best


def test_the_oracle_stops_where_nothing_more_can_be_found():
    env = PaperSearchEnv(split="test", selector="lexical")
    info = ask(env.oracle(), env, env.tasks[0].id)
    assert info["progress"] >= 0.3


def test_the_collector_plays_paper_search_alone():
    from agentgym.registration import open_vector

    with pytest.raises(UnsupportedEnvError, match="plays paper search"):
        make_collector(open_vector("agentgym/EZPoints-v0", 1))
    with pytest.raises(UnsupportedEnvError, match="candidates"):
        make_collector(PaperSearchVectorEnv(1, actions="candidates"))
