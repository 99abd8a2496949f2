"""Servers without a parser of tools, whose models say what their families do: the oracle, in eleven forms."""

from contextlib import contextmanager

import pytest

from agentgym.cli import main
from agentgym.core.tools import call_of
from agentgym.evaluation.log.endpoint_runs import EndpointSettings
from agentgym.evaluation.log.runfiles import read_episodes, read_run
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.suites.suite import SuiteAgent
from agentgym.registration import open_env
from tests.evaluation.chat_server import serving
from tests.evaluation.making import board_below
from tests.reading.writers import WRITERS
from tests.suite_texts import env_table, suite_text

FAMILIES = {
    "hermes": "<think>\nHm.\n</think>\n\n",
    "qwen-xml": "Hm.\n</think>\n\n",  # the prompt begins the thought
    "glm": "\n<think></think>\n",
    "gemma": "<|channel>thought\nHm.\n<channel|>",
    "harmony": "<|channel|>analysis<|message|>Hm.<|end|>",
    "llama": "",
    "json": "",
    "lfm": "",
    "mistral": "[THINK]Hm.[/THINK]",
    "deepseek": "<think>\nHm.\n</think>\n\n",
    "kimi": "◁think▷Hm.◁/think▷",
}
"""What each family says before its calls."""
SUITE = suite_text(
    "families",
    env_table("agentgym/Sokoban-v0", 4, kwargs={"dim_room": [6, 6], "num_boxes": 1}),
    env_table("agentgym/HotpotQA-v0", 4),
    seed=3,
    attempts=1,
)


def walkthroughs(run):
    """Return what the oracle did in a run: calls of each turn, by the first observation of the task."""
    record, found = read_run(run), {}
    environments = {
        each.env.label: open_env(each.env.id, split="test", options=each.env.kwargs) for each in record.envs
    }
    for episode in read_episodes(run):
        env = environments[episode.env]
        seen, _ = env.reset(seed=episode.seed, options={"task": episode.task_id})
        turns = [[call_of(env.tools, line) for line in action.split("\n")] for action in episode.actions]
        found[seen.strip()] = turns
    return found


@contextmanager
def families(turns):
    """Serve models that are called as their families, each of which says the oracle's next calls."""

    def answer(body):
        first, *later = [each for each in body["messages"] if each["role"] != "system"]
        (known,) = [said for seen, said in turns.items() if seen in first["content"]]
        turn = sum(each["role"] == "assistant" for each in later)
        calls = [(call.name, dict(call.arguments)) for call in known[turn]]
        assert body["tools"]
        return FAMILIES[body["model"]] + WRITERS[body["model"]](calls)

    with serving() as server:
        server.answer = answer
        yield server


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """Play the oracle, then every family; return the rows of the board by agent."""
    folder = tmp_path_factory.mktemp("families")
    suite, results = folder / "families.toml", folder / "results"
    suite.write_text(SUITE)
    assert main(["bench", str(suite), "--out", str(results)]) == 0
    (run,) = [
        path.parent for path in results.rglob("run.json") if read_run(path.parent).agent.name == "oracle"
    ]
    with families(walkthroughs(run)) as server:
        for name in FAMILIES:
            options = {"endpoint": server.url, "model": name, "answer": "tool-calls", "native_tools": True}
            further = [SuiteAgent(name, "react", options={**options, "history": "all"})]
            settings = EndpointSettings(probe=False)
            run_bench(suite, results, agents=[name], further=further, endpoints=settings)
    return {row.agent.name: row for row in board_below(results).rows}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_s_own_text_earns_what_the_oracle_does(board, family):
    row = board[family]
    assert row.rank == 1
    for label, result in row.envs.items():
        assert result.format_errors.value == 0
        assert result.success.value == board["oracle"].envs[label].success.value == 1, label
