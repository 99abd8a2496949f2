"""Plays episodes in SOTOPIA's own environment; runs in an environment of its own, which has ``sotopia``.

``python -P sotopia_original.py EPISODES OUTCOMES`` reads what `benchmarks.parity.sotopia_episodes` writes and
writes, for each episode, what the environment showed and said. ``python -P sotopia_original.py --speed
SECONDS`` prints the turns a second of its step without models. It imports nothing of agentgym.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sotopia.agents.llm_agent import Agents, LLMAgent
from sotopia.database import BaseAgentProfile, BaseEnvironmentProfile  # those that need no Redis
from sotopia.envs import evaluators, parallel
from sotopia.messages import AgentAction

DIMENSIONS = evaluators.SotopiaDimensions
ONE_EACH = evaluators.EvaluationForTwoAgents[DIMENSIONS]


def prepare(episode: dict[str, Any], judge: bool) -> tuple[Any, Any]:
    """Return the environment of an episode, and its agents."""
    profiles = [BaseAgentProfile(**agent) for agent in episode["agents"]]
    agents = Agents({(one := LLMAgent(agent_profile=profile)).agent_name: one for profile in profiles})
    profile = BaseEnvironmentProfile(
        scenario=episode["scenario"], agent_goals=episode["goals"], relationship=episode["relationship"]
    )
    env = parallel.ParallelSotopiaEnv(
        action_order=episode["order"],
        evaluators=[evaluators.RuleBasedTerminatedEvaluator(episode["max_turns"], 2)],
        terminal_evaluators=[evaluators.EpisodeLLMEvaluator("fake", ONE_EACH)] if judge else [],
        env_profile=profile,
    )
    return env, agents


async def play(episode: dict[str, Any]) -> dict[str, Any]:
    """Return what the environment shows and says of an episode."""
    draws = iter(episode["draws"])
    parallel.random = SimpleNamespace(randint=lambda low, high: next(draws))
    histories: list[str] = []

    async def rate(**asked: Any) -> Any:
        histories.append(asked["input_values"]["history"])
        first, second = (
            DIMENSIONS(
                **{name: ("", rating) for name, rating in zip(DIMENSIONS.model_fields, given, strict=True)}
            )
            for given in episode["ratings"]
        )
        return ONE_EACH(agent_1_evaluation=first, agent_2_evaluation=second)

    evaluators.agenerate = rate
    env, agents = prepare(episode, judge=True)
    given = env.reset(
        agents=agents, omniscient=episode["detail"] == "omniscient", lite=episode["detail"] == "lite"
    )
    names = list(agents)
    steps = [{"shown": shown(given, names)}]
    for actions in episode["actions"]:
        tried = {
            name: AgentAction(action_type=kind, argument=text)
            for name, (kind, text) in zip(names, actions, strict=True)
        }
        given, rewards, terminated, _, infos = await env.astep(tried)
        steps.append(
            {
                "shown": shown(given, names),
                "rewards": [rewards[name] for name in names],
                "over": [terminated[name] for name in names],
                "why": infos[names[0]]["comments"].partition("\nAgent 1 comments")[0].strip(),
            }
        )
        if any(terminated.values()):
            break
    return {"steps": steps, "history": histories[0] if histories else None}


def shown(given: dict[str, Any], names: list[str]) -> list[list[Any]]:
    """Return each side's observation: its text, the number of the turn, and what may be done, sorted."""
    return [
        [given[name].to_natural_language(), given[name].turn_number, sorted(given[name].available_actions)]
        for name in names
    ]


async def speed(seconds: float) -> float:
    """Return turns a second of the environment's step, its texts included, without any model.

    It is ``astep``, which everybody calls: ``step`` fails its own check of types where nobody rates.
    """
    agent = {"age": 40, "occupation": "Baker", "gender": "Man", "gender_pronoun": "He/him"}
    episode = {
        "agents": [
            {"first_name": "Ada", "last_name": "Moss", **agent},
            {"first_name": "Bero", "last_name": "Tarn", **agent},
        ],
        "scenario": "Two people meet.",
        "goals": ["Talk.", "Listen."],
        "relationship": 3,
        "order": "round-robin",
        "max_turns": 1_000,
    }
    env, agents = prepare(episode, judge=False)
    said = AgentAction(action_type="speak", argument="Good morning to you.")
    nothing = AgentAction(action_type="none", argument="")
    count, spent = 0, 0.0
    while spent < seconds:
        env.reset(agents=agents)
        start = time.perf_counter()
        for turn in range(20):
            done = (said, nothing) if turn % 2 == 0 else (nothing, said)
            await env.astep(dict(zip(agents, done, strict=True)))
        spent += time.perf_counter() - start
        count += 20
    return count / spent


async def play_all(episodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the outcomes of episodes."""
    return [await play(episode) for episode in episodes]


def main(arguments: list[str]) -> None:
    """Do what the command line says."""
    if arguments[0] == "--speed":
        print(asyncio.run(speed(float(arguments[1]))))
        return
    source, target = map(Path, arguments)
    target.write_text(json.dumps(asyncio.run(play_all(json.loads(source.read_text()))), ensure_ascii=False))


if __name__ == "__main__":
    main(sys.argv[1:])
