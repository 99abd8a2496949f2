"""Episodes written as the logs of other projects."""

import json
import re
from typing import Any

import gymnasium

from agentgym.agents import make_agent
from agentgym.core.tasks import ListTaskSet
from agentgym.core.tools import call_of
from agentgym.envs.alfworld.env import ALFWorldEnv
from agentgym.evaluation.imports.inspect import LISTED, STORE
from agentgym.registration import open_env, open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker

Episode = dict[str, Any]
"""In the form of the dialect ``jsonl``."""

FEW_GAMES = "logs/ALFWorld-v0"
"""ALFWorld's first built-in games alone: looking for a game among all of them takes seconds."""


class FewGames(ALFWorldEnv):
    """The first four built-in games of a split."""

    def __init__(self, **options: Any):
        """Make `ALFWorldEnv` with fewer tasks."""
        super().__init__(**options)
        self.tasks = ListTaskSet(self.tasks.split, self.tasks[:4], dataset="builtin", suite=self.suite)


if FEW_GAMES not in gymnasium.registry:
    gymnasium.register(FEW_GAMES, entry_point=FewGames)


def played(
    env_id: str, agent: str, *, tasks: int = 3, rollouts: int = 1, options: dict[str, Any] | None = None
) -> list[Episode]:
    """Return what an agent does in the first tasks of an environment, and all that follows."""
    options = dict(options or {})
    split = options.pop("split", None)
    envs = open_vector(env_id, 4, split=split, options=options)
    specs = [EpisodeSpec(each.id, 0, r) for each in envs.prototype.tasks[:tasks] for r in range(rollouts)]
    trajectories = list(RolloutWorker(envs, make_agent(agent, envs), env_id=env_id).run(specs))
    order = {(spec.task_id, spec.rollout): number for number, spec in enumerate(specs)}
    trajectories.sort(key=lambda each: order[each.task_id, each.rollout])
    game = open_env(env_id, split=split, options=options)
    return [
        replayed(game, each.task_id, [step.completion.action for step in each.steps]) for each in trajectories
    ]


def replayed(game: Any, task: str, actions: list[str]) -> Episode:
    """Return an episode with everything that a log can say."""
    observation, info = game.reset(seed=0, options={"task": task})
    episode: Episode = {"task": task, "observation": observation, "steps": []}
    for action in actions:
        seen, reward, terminated, truncated, info = game.step(action)
        step = {"action": action, "observation": seen, "reward": reward, "done": terminated or truncated}
        step |= {"valid": info["action_is_valid"], "state_hash": info["state_hash"]}
        episode["steps"].append(step)
    return episode | {"score": info["score"], "success": info["won"]}


def as_jsonl(episodes: list[Episode]) -> str:
    """Return a line an episode."""
    return "".join(json.dumps(episode) + "\n" for episode in episodes)


def as_react(episodes: list[Episode]) -> str:
    """Return a transcript, every other episode as the notebook prints it, with a thought each turn."""
    lines = []
    for number, episode in enumerate(episodes):
        room, goal = episode["observation"].split("\n\n")[1:]
        lines += [room, goal]
        for turn, step in enumerate(episode["steps"], start=1):
            seen = re.sub(r"^You arrive at loc \d+\. ", "", step["observation"])
            for action, answer in (("think: what now?", "OK."), (step["action"], seen)):
                lines += (
                    [f"Act {turn}: {action}", f"Obs {turn}: {answer}"]
                    if number % 2
                    else [f"> {action}", answer]
                )
        won = episode["success"]
        lines.append(
            f"1 r {won} rs [1] cnts [1] sum(rs)/sum(cnts) 1.0"
            if number % 2
            else f"STATUS: {'OK' if won else 'FAIL'}"
        )
        lines += ["------------", ""]
    return "\n".join(lines)


def as_notebook(text: str) -> str:
    """Return a notebook whose second cell prints a text, in two parts."""
    half = len(text) // 2
    outputs = [
        {"name": "stdout", "text": part.splitlines(keepends=True)} for part in (text[:half], text[half:])
    ]
    return json.dumps({"cells": [{"source": []}, {"source": [], "outputs": outputs}]})


def as_verl_agent(episodes: list[Episode]) -> str:
    """Return a row a step, turn by turn, also of episodes that have ended."""
    rows = []
    for turn in range(max(len(episode["steps"]) for episode in episodes)):
        for number, episode in enumerate(episodes):
            active = turn < len(episode["steps"])
            steps = [{"observation": episode["observation"]}, *episode["steps"]]
            step = steps[min(turn + 1, len(steps) - 1)]
            seen = steps[min(turn, len(steps) - 1)]["observation"]
            head = f"\nYour current observation is: {seen}"
            prompt = f"{head}\nYour admissible actions of the current situation are: []."
            rows.append(
                {
                    "rollout_step": turn,
                    "env_index": number,
                    "traj_uid": f"episode-{number}",
                    "active": active,
                    "reward": step["reward"],
                    "done": step["done"],
                    "prompt": prompt,
                    "llm_output": f"<think>hm</think><action>{step['action'].upper()}</action>",
                    "projected_action": step["action"] if number % 2 else "",
                    "info_json": json.dumps({"won": False, "extra.gamefile": None}),
                }
            )
    return "".join(json.dumps(row) + "\n" for row in rows)


def as_chat(episodes: list[Episode], env_id: str, split: str) -> str:
    """Return a conversation a line, in OpenAI's form."""
    tools = open_env(env_id, split=split).suite_spec.tools
    lines = []
    for number, episode in enumerate(episodes):
        messages: list[dict[str, Any]] = [{"role": "system", "content": "Act."}]
        messages.append({"role": "user", "content": f"You see:\n{episode['observation']}\nWhat now?"})
        for turn, step in enumerate(episode["steps"]):
            call = call_of(tools, step["action"])
            if call is None:
                raise ValueError(f"no call is {step['action']!r}")
            arguments: Any = dict(call.arguments)
            function = {"name": call.name, "arguments": arguments if number % 2 else json.dumps(arguments)}
            calls = [{"id": f"c{turn}", "type": "function", "function": function}]
            messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            messages.append({"role": "tool", "tool_call_id": f"c{turn}", "content": step["observation"]})
        messages.append({"role": "assistant", "content": "Done."})
        lines.append(json.dumps({"messages": messages, "success": episode["success"]}))
    return "\n".join(lines)


def as_inspect(episodes: list[Episode], env_id: str, split: str) -> str:
    """Return a log as `agentgym.bridges.inspect_ai` makes them."""
    tools = open_env(env_id, split=split).suite_spec.tools
    samples: list[dict[str, Any]] = []
    for episode in episodes:
        messages: list[dict[str, Any]] = [{"role": "system", "content": "Act."}]
        messages.append({"role": "user", "content": episode["observation"] + LISTED + "all"})
        for turn, step in enumerate(episode["steps"]):
            call = call_of(tools, step["action"])
            if call is None:
                raise ValueError(f"no call is {step['action']!r}")
            calls = [
                {
                    "id": f"{turn}",
                    "function": call.name,
                    "arguments": dict(call.arguments),
                    "type": "function",
                }
            ]
            messages.append(
                {"role": "assistant", "content": [{"type": "text", "text": "Now"}], "tool_calls": calls}
            )
            seen = step["observation"] + LISTED + "all"
            messages.append({"role": "tool", "tool_call_id": f"{turn}", "content": seen, "error": None})
        store = {STORE: {"rewards": [step["reward"] for step in episode["steps"]]}}
        scores = {STORE: {"value": {"score": episode["score"]}}}
        samples.append(
            {
                "id": episode["task"],
                "epoch": 1,
                "messages": messages,
                "store": store,
                "scores": scores,
                "metadata": {},
            }
        )
    metadata = {"env": env_id, "split": split, "options": {}, "seed": 0}
    return json.dumps({"version": 2, "eval": {"metadata": metadata}, "samples": samples})


def _cut(observation: str, arrival: str = "") -> str:
    """Return an observation of ALFWorld without the welcome, and with another arrival."""
    without = re.sub(r"^-= .* =-\s+", "", observation)
    return re.sub(r"^You arrive at loc \d+\. ", arrival, without)


def as_knowagent(episodes: list[Episode]) -> str:
    """Return a game a line, with a thought and a kind of action before each action."""
    lines = []
    for number, episode in enumerate(episodes):
        room, goal = _cut(episode["observation"]).split("\n\n")
        text = f"{room}\n{goal}\n> Think: What now?"
        for step in episode["steps"]:
            text += f"\n> ActionPath: Goto\n> {step['action']}\n{_cut(step['observation'])}"
        won = episode["success"] if number % 2 else int(episode["success"])
        lines.append(json.dumps({"name": episode["task"], "result": won, "traj": text}))
    return "\n".join(lines)


def as_adapt(episodes: list[Episode]) -> str:
    """Return a result file; every third action begins a subtask, whose trace follows the last one's."""
    games: dict[str, Any] = {}
    for episode in episodes:
        room, goal = _cut(episode["observation"]).split("\n\n")
        trace = " think: What now?\nOK.\n>"
        for turn, step in enumerate(episode["steps"]):
            seen = _cut(step["observation"], "You arrive at the location. ")
            trace += "\n\n" * (turn % 3 == 0) + f" {step['action']}\n{seen}\n>"
        won = episode["success"]
        games[episode["task"]] = {
            "problem": f"{room}\n{goal}",
            "trace": trace,
            "plans": ["all"],
            "reward": won,
        }
    return json.dumps({"pick_and_place": games, "overall": {"rate": 1.0}}, indent=1)


def as_adapt_purchases(episodes: list[Episode]) -> str:
    """Return a result file of WebShop, whose goals are known by number, without what was seen."""
    goals = {}
    for episode in episodes:
        actions = ["think[What now?]"]
        for step in episode["steps"]:
            kind, _, text = step["action"].partition("[")
            actions.append(f'search["{text[:-1]}"]' if kind == "search" else f"click[{text[:-1].upper()}]")
        stated = {"problem": "Buy it.", "score": episode["score"], "success": episode["success"]}
        goals[f"fixed_{episode['task']}"] = {**stated, "action_history": actions}
    return json.dumps(goals)


def as_conversations(episodes: list[Episode]) -> str:
    """Return an array of conversations, every other one in ETO's form, and else in AgentTraj's."""
    records = []
    for number, episode in enumerate(episodes):
        eto, first = bool(number % 2), _cut(episode["observation"])
        after = "" if eto else "\nAVAILABLE ACTIONS: look,inventory"
        turns = [("human", "Act."), ("gpt", "OK"), ("human", f"Now:\n{first}{after}")]
        for step in episode["steps"]:
            turns.append(("gpt", f"Thought: go on\n\nAction:{' ' if eto else chr(10)}{step['action']}"))
            turns.append(("human", f"{'Observation: ' * eto}{step['observation']}{after}"))
        record: dict[str, Any] = {"conversations": [{"from": who, "value": text} for who, text in turns]}
        records.append(
            record | ({"id": "x", "game_file": episode["task"]} if eto else {"item_id": "alfworld_7"})
        )
    return json.dumps(records)


def as_tales(episodes: list[Episode]) -> str:
    """Return a row a line."""
    lines = []
    for episode in episodes:
        turns = [{"role": "environment", "content": episode["observation"]}]
        for step in episode["steps"]:
            turns.append({"role": "agent", "content": step["action"]})
            turns.append({"role": "environment", "content": step["observation"]})
        row = {"model": "a-model", "agent_type": "zero-shot", "turns": json.dumps(turns)}
        lines.append(json.dumps(row | {"score": int(episode["success"]), "max_score": 1}))
    return "\n".join(lines)


def as_react_viewer(episodes: list[Episode]) -> str:
    """Return an array of games with a table a step."""
    games = []
    for number, episode in enumerate(episodes):
        steps, seen = [], episode["observation"]
        for turn, step in enumerate(episode["steps"], start=1):
            shown = {"step": turn, "observation": seen, "model_response": "Act: ...", "score": 0}
            seen = step["observation"]
            steps.append(
                shown | {"action_taken": step["action"], "next_observation": seen, "done": step["done"]}
            )
        named = {"game_id": number, "task_type": "put", "initial_obs": episode["observation"], "steps": steps}
        result = "success" if episode["success"] else "timeout"
        games.append({**named, "result": result, "total_steps": len(steps)})
    return json.dumps(games)


def as_self_improvement(episodes: list[Episode]) -> str:
    """Return a line an episode, whose steps have the observation before them."""
    lines = []
    for number, episode in enumerate(episodes):
        seen, steps = episode["observation"], []
        for index, step in enumerate(episode["steps"]):
            given = {"action": step["action"], "observation": seen, "reward": step["reward"]}
            steps.append(given | {"done": step["done"], "action_valid": step["valid"], "index": index})
            seen = step["observation"]
        named = {"trajectory_id": str(number), "task": {"task_id": episode["task"]}, "seed": 42}
        lines.append(json.dumps(named | {"initial_observation": episode["observation"], "steps": steps}))
    return "\n".join(lines)
