"""Episodes of paper search that must never change without a new version; see `tests.golden`."""

import pytest

from agentgym.core.calls import Call, write_calls
from agentgym.core.rng import TurnRng
from agentgym.envs.papersearch.candidates import phrases
from agentgym.envs.papersearch.env import PaperSearchEnv
from tests.golden import Golden, play, summary

CASES = [
    {"options": {}, "seed": 0},
    {"options": {"split": "test"}, "seed": 1},
    {"options": {"selector": "lexical", "show_scores": True, "max_steps": 8}, "seed": 2},
    {"options": {"discrete": True, "search_cost": 0.1, "expand_cost": 0.25, "k": 20}, "seed": 3},
    {"options": {"before": "2012-06", "untagged": "invalid"}, "seed": 4},
    {"options": {"actions": "candidates", "max_steps": 12}, "seed": 5},
]


def record(case):
    """Play a case's episode: random calls of phrases and papers that are shown, now and then none."""
    env = PaperSearchEnv(**case["options"])

    def choose(info):
        draws = TurnRng(case["seed"], info["turn"])
        listed = info["admissible_actions"]
        if env.action_kind == "enumerated":
            return listed[draws.below(max(1, len(listed) - 1))]
        if info["turn"] % 4 == 3:
            return "search[no such action"
        papers = [env.world.corpus.paper(paper.number) for paper in env.pool.shown()]
        queries = [info["goal"], *phrases(info["goal"]), *(paper.title for paper in papers)]
        calls = [Call("search", queries[draws.below(len(queries))]) for _ in range(1 + draws.below(3))]
        calls += [Call("expand", papers[draws.below(len(papers))].id) for _ in range(3) if papers]
        return write_calls(calls)

    def show(text, before, after):
        return [text, list(after["admissible_actions"]), after["step_cost"]]

    episode = play(env, case["seed"], choose, show=show)
    return summary(case, env, episode, score=episode.info["score"], measures=env.measures())


GOLDEN = Golden.beside(__file__, CASES, record)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_golden_episodes(number):
    GOLDEN.check(number)


def test_the_episodes_find_something():
    assert sum(record(case)["score"] > 0 for case in CASES) >= 4
