"""The oracle follows the supporting facts, the rule reads what everybody sees, and chance does not win."""

import pytest

from agentgym.agents import make_agent
from agentgym.envs.multihop.oracle import oracle_texts
from agentgym.envs.multihop.rules import LexicalPolicy, make_lexical
from agentgym.errors import UnsupportedEnvError
from agentgym.registration import make, make_vec
from agentgym.rollout.worker import RolloutWorker
from tests.policy_requests import request, request_of

SUITES = ("HotpotQA", "TwoWiki", "MuSiQue", "SearchQA")
TASKS = 60


def played(suite, agent, **options):
    envs = make_vec(f"agentgym/{suite}-v0", 20, split="test", autoreset_mode="Disabled", **options)
    policy = envs.oracle() if agent == "oracle" else make_agent(agent, envs)
    worker = RolloutWorker(envs, policy, env_id=f"agentgym/{suite}-v0")
    groups = worker.collect(envs.tasks.ids[:TASKS], group_size=1, seed=0)
    return [trajectory for group in groups for trajectory in group.trajectories]


def share(trajectories):
    return sum(trajectory.won for trajectory in trajectories) / len(trajectories)


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("options", [{}, {"form": "search-r1"}, {"corpus": "own", "first_search": True}])
def test_the_oracle_wins_all(suite, options):
    trajectories = played(suite, "oracle", **options)
    assert share(trajectories) == 1.0
    assert all(step.valid for trajectory in trajectories for step in trajectory.steps)


@pytest.mark.parametrize("suite", SUITES)
def test_the_oracle_wins_nearly_all_by_choosing(suite):
    assert share(played(suite, "oracle", actions="candidates")) >= 0.9


@pytest.mark.parametrize("suite", SUITES)
def test_the_oracle_finds_the_supporting_passages_before_it_answers(suite):
    env = make(f"agentgym/{suite}-v0", split="test_unseen")
    oracle = env.oracle()
    for task in env.tasks[:20]:
        observation, info = env.reset(options={"task": task.id})
        texts = list(oracle_texts(env))
        ended = False
        while not ended:
            action = oracle.act([request_of(env, info, observation=observation)])[0].action
            assert all(line.partition("[")[2][:-1] in texts for line in action.split("\n"))
            observation, _, terminated, truncated, info = env.step(action)
            ended = terminated or truncated
        assert env.measures()["support"] == 1.0


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("options", [{}, {"form": "search-r1"}, {"actions": "candidates"}])
def test_rules_beat_chance(suite, options):
    rules, chance = share(played(suite, "rules", **options)), share(played(suite, "random", **options))
    assert rules > chance
    assert 0.05 < rules < 0.75
    assert chance < 0.2


def rule(question, observation, turn):
    """Return the rule's action."""
    actions, extra = ("search[<query>]", "answer[<text>]"), {"question": question}
    asked = request(turn=turn, observation=observation, admissible_actions=actions, extra=extra)
    return LexicalPolicy(1, 5).act([asked])[0].action


def test_the_rule_searches_the_question_then_what_the_best_passage_names():
    def act(observation, turn):
        question = "In which city was the director of the film The Old Mill born?"
        return rule(question, observation, turn)

    first = "Question: ...\n\nPassages found so far:\n(none)"
    assert act(first, 0) == "search[In which city was the director of the film The Old Mill born?]"
    film = "[1] The Old Mill: The Old Mill is a film directed by Ada Moor."
    asked = "Queries so far:\n- In which city was the director of the film The Old Mill born?"
    assert act(f"Passages found so far:\n{film}\n\n{asked}", 1) == "search[Ada Moor]"
    person = "[2] Ada Moor: Ada Moor (born 1 May 1901) was a painter. She was born in Esk."
    assert act(f"Passages found so far:\n{film}\n{person}\n\n{asked}\n- Ada Moor", 4) == "answer[Esk]"


OLD, NEW, HALL = (
    "The Old Mill: The Old Mill is a film of 1931 directed by Ada Moor.",
    "The New Mill: The New Mill is a film of 1942 directed by {}.",
    "Esk Hall: Esk Hall is a theatre in Ulm Vale, opened in 1922.",
)


@pytest.mark.parametrize(
    ("question", "director", "answer"),
    [
        ("Were The Old Mill and The New Mill directed by the same person?", "Ada Moor", "yes"),
        ("Were The Old Mill and The New Mill directed by the same person?", "Bo Lind", "no"),
        ("Which film came out first, The Old Mill or The New Mill?", "Bo Lind", "The Old Mill"),
        ("Which film came out last, The Old Mill or The New Mill?", "Bo Lind", "The New Mill"),
        ("Which film is older, The New Mill or The Old Mill?", "Bo Lind", "The Old Mill"),
        ("Which film is older, The Red Mill or The Old Mill?", "Bo Lind", "The Red Mill"),
        ("In which year was the theatre Esk Hall opened?", "Bo Lind", "1922"),
    ],
)
def test_the_rule_answers_from_the_passages_that_share_words_with_the_question(question, director, answer):
    passages = "\n".join(f"[{n}] {text}" for n, text in enumerate((HALL, OLD, NEW.format(director)), 1))
    observation = f"Passages found so far:\n{passages}\n\nQueries so far:\n- {question}"
    assert rule(question, observation, 4) == f"answer[{answer}]"


def test_the_rule_plays_no_other_suite():
    with pytest.raises(UnsupportedEnvError, match="'lexical' answers questions, not EZPointsEnv"):
        make_lexical(make_vec("agentgym/EZPoints-v0", 1))
