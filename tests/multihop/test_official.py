"""The published questions, of which the data directory holds samples."""

import pytest

from agentgym import UsageError
from agentgym.agents import make_agent
from agentgym.registration import make, make_vec
from agentgym.rollout.worker import RolloutWorker

pytestmark = pytest.mark.assets

SAMPLES = {"HotpotQA": (300, 3_930), "TwoWiki": (120, 1_294), "MuSiQue": (220, 5_021)}
"""Questions and passages of each."""


def played(suite, agent, **options):
    env_id = f"agentgym/{suite}-v0"
    envs = make_vec(
        env_id, 20, split="dev", dataset=f"{suite.lower()}/sample", autoreset_mode="Disabled", **options
    )
    policy = envs.oracle() if agent == "oracle" else make_agent(agent, envs)
    groups = RolloutWorker(envs, policy, env_id=env_id).collect(envs.tasks.ids[:60], group_size=1, seed=0)
    return sum(trajectory.won for group in groups for trajectory in group.trajectories) / 60


@pytest.mark.parametrize("suite", SAMPLES)
def test_a_sample_is_played(suite):
    env = make(f"agentgym/{suite}-v0", split="dev", dataset=f"{suite.lower()}/sample")
    assert (len(env.tasks), len(env.corpus.store)) == SAMPLES[suite]
    task = env.tasks[3]
    assert env.tasks.find(task.source_id).id == task.id
    env.reset(options={"task": task.id})
    env.step(f"search[{task.content.question}]")
    assert 0.0 <= env.measures()["support"] <= 1.0
    assert env.measures()["passages"] == 5.0


@pytest.mark.parametrize("suite", SAMPLES)
@pytest.mark.parametrize("options", [{}, {"form": "search-r1", "corpus": "own"}])
def test_the_oracle_wins_and_rules_win_some(suite, options):
    assert played(suite, "oracle", **options) == 1.0
    assert 0.0 < played(suite, "rules", **options) < 0.6


@pytest.mark.parametrize("suite", SAMPLES)
def test_one_search_with_the_question_finds_what_was_measured(suite):
    """Share of supporting passages among the first 10, by BM25 over the union of the sample."""
    env = make(f"agentgym/{suite}-v0", split="dev", dataset=f"{suite.lower()}/sample", k=10)
    found = []
    for task in env.tasks:
        env.reset(options={"task": task.id})
        env.step(f"search[{task.content.question}]")
        found.append(env.measures()["support"])
    expected = {"HotpotQA": 0.875, "TwoWiki": 0.723, "MuSiQue": 0.546}[suite]
    assert abs(sum(found) / len(found) - expected) <= 0.01


def test_questions_without_passages_want_an_encyclopedia():
    with pytest.raises(UsageError, match="comes with no passages: pass corpus='fullwiki'"):
        make("agentgym/HotpotQA-v0", split="dev", dataset="hotpotqa/questions")
    with pytest.raises(UsageError, match="no passages at"):
        make("agentgym/HotpotQA-v0", split="dev", dataset="hotpotqa/questions", corpus="fullwiki")


def test_a_split_that_a_sample_lacks_is_refused():
    with pytest.raises(UsageError, match="unknown split 'train'"):
        make("agentgym/MuSiQue-v0", dataset="musique/sample")
