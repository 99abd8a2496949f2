"""Plays scripted responses in a fork's own managers, for `benchmarks.bridges.forks`; runs in its checkout.

It plays over our environments, or with ``--own`` over the checkout's own workers, which for Search run on a
processor. What the managers return is written as JSON.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.bridges.verl_agent_texts import Speaker

ROWS = 4
MALFORMED = (0.0, 0.3, 0.0, 0.5)
"""Share of odd responses, by number of the row."""

SUITES: Mapping[str, Mapping[str, Any]] = {
    "alfworld": {"env_name": "alfworld/AlfredTWEnv", "max_steps": 50},
    "webshop": {"env_name": "Webshop", "max_steps": 15},
    "sokoban": {"env_name": "Sokoban", "max_steps": 15},
    "search": {"env_name": "search", "max_steps": 4, "history_length": 4},
}
"""Settings that the scripts of verl-agent give to a suite."""

SETTINGS: Mapping[str, Any] = {
    **{"seed": 0, "history_length": 2, "rollout": {"n": 1}},
    "resources_per_worker": {"num_cpus": 0.1, "num_gpus": 0},
    "alfworld": {"eval_dataset": "eval_in_distribution"},
    "webshop": {"use_small": True, "human_goals": False},
    "sokoban": {"dim_room": [6, 6], "num_boxes": 1, "search_depth": 30, "mode": "tiny_rgb_array"},
    "search": {"search_url": "http://127.0.0.1:9/retrieve", "topk": 3, "timeout": 60, "log_requests": False},
    "agentgym": {},
}
"""Settings of every suite; those of forks beside them have defaults."""

SEARCHES = (
    "<think>First this.</think><search>{query}</search>",
    "<think>First this.</think><search>\n {query} \n</search> and then",
    "<SEARCH>{query}</SEARCH>",
    "<search>{query}</search><search>once more</search>",
    "<search>{query}</search><answer>{answer}</answer>",
    "<search>{query}",
    "I do not know.",
    "<think>Done.</think><answer>{answer}</answer>",
    "<answer>The {answer}.</answer>",
    "<Answer>{answer}</Answer>",
    "<answer><answer>{answer}</answer>",
    "<answer>{answer}</answer><answer>nothing</answer>",
    "<search>what is <answer>{answer}</answer>?</search>",
    "",
)
"""Responses of Search; the first two and last answer a question as they should."""


def configuration(suite: str, options: Mapping[str, Any], url: str | None) -> Any:
    """Return what a checkout's ``make_envs`` reads."""
    omegaconf: ModuleType = importlib.import_module("omegaconf")
    made: Any = omegaconf.OmegaConf.create(
        {
            "env": {**SETTINGS, **SUITES[suite], "agentgym": {"anchor": "text", **options}},
            "data": {"train_batch_size": 1, "val_batch_size": ROWS},
            "trainer": {"val_only": False},
        }
    )
    if url is not None:
        made.env.search.search_url = url
    return made


def offered(suite: str, manager: Any, row: int, infos: Sequence[Any]) -> list[str]:
    """Return what a row may do."""
    if suite == "alfworld":
        return list(manager.envs.get_admissible_commands[row])
    if suite == "sokoban":
        return ["up", "down", "left", "right", "still"]
    words = re.findall(r"[a-z]{4,}", manager.tasks[row].lower())
    clicks = [f"click[{text}]" for text in infos[row]["available_actions"]["clickables"]]
    return [*clicks, f"search[{' '.join(words[:4])}]", f"search[{words[-1]}]"]


class Script:
    """Says what each row does, equal in each process: it reads no passage."""

    def __init__(self, suite: str, seed: int):
        """Begin a round."""
        self._suite, self._rng = suite, random.Random(seed)
        self._speakers = [Speaker(seed * ROWS + row, share) for row, share in enumerate(MALFORMED)]

    def say(self, manager: Any, infos: Sequence[Any], asked: Sequence[Mapping[str, Any]] | None) -> list[str]:
        """Return a response for each row."""
        if self._suite != "search":
            rows = enumerate(self._speakers)
            return [one.say(one.choose(offered(self._suite, manager, row, infos))) for row, one in rows]
        questions = manager.tasks if asked is None else [each["question"] for each in asked]
        golds = ["yes"] * ROWS if asked is None else [each["ground_truth"]["target"][0] for each in asked]
        return [self._search(*pair) for pair in zip(questions, golds, strict=True)]

    def _search(self, question: str, gold: str) -> str:
        words = question.rstrip("?").split()
        query = " ".join(self._rng.sample(words, min(4, len(words))))
        form = SEARCHES[0] if self._rng.random() < 0.5 else self._rng.choice(SEARCHES)
        return form.format(query=query, answer=gold if self._rng.random() < 0.7 else words[-1])


def play(suite: str, manager: Any, least: int, rounds: Sequence[Any]) -> list[list[Any]]:
    """Play rounds of validation until so many steps are played; return a step's fields, row by row."""
    record: list[list[Any]] = []
    for number, asked in enumerate(rounds):
        if least and len(record) >= least:
            break
        script, over = Script(suite, number), [False] * ROWS
        observations, infos = manager.reset(kwargs=asked)
        for _ in range(manager.config.env.max_steps if not least else least // ROWS):
            texts = script.say(manager, infos, asked)
            before, were = observations, list(over)
            observations, rewards, dones, infos = manager.step(list(texts))
            for row, text in enumerate(texts):
                if not were[row]:
                    seen = (before["text"][row], before["anchor"][row], text, float(rewards[row]))
                    valid, won = bool(infos[row]["is_action_valid"]), bool(infos[row]["won"])
                    record.append([number * ROWS + row, *seen, bool(dones[row]), valid, won])
            over = [was or bool(done) for was, done in zip(over, dones, strict=True)]
            if all(over):
                break
    return record


def main() -> None:
    """Play suites and write what was seen."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("suites", nargs="+")
    parser.add_argument("--steps", type=int, default=0, help="least number of steps; 0 for every question")
    parser.add_argument("--questions", type=Path, help="JSON: rounds of questions of Search")
    parser.add_argument("--url", help="retrieval server of Search")
    parser.add_argument("--own", action="store_true", help="over the checkout's own workers")
    given = parser.parse_args()
    if not given.own:
        bridge: ModuleType = importlib.import_module("agentgym.bridges.verl_agent")
        bridge.replace_workers()
    theirs: Any = importlib.import_module("agent_system.environments")
    rounds = [None] * 100 if given.questions is None else json.loads(given.questions.read_text("utf-8"))
    found: dict[str, Any] = {}
    for suite in given.suites:
        options = {"dataset": "builtin", "search": "bm25"} if suite == "search" and given.url is None else {}
        _, manager = theirs.make_envs(configuration(suite, options, given.url))
        owner = type(manager.envs).__module__.partition(".")[0]
        assert owner == ("agent_system" if given.own else "agentgym"), owner
        panel = None if given.own or manager.envs.panel is None else manager.envs.panel.header()
        found[suite] = {"panel": panel, "steps": play(suite, manager, given.steps, rounds)}
    given.out.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
