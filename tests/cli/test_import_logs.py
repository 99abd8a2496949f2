"""Logs of other projects: what agrees becomes a run, what does not is listed with its step."""

import copy
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentgym.core.tasks import ListTaskSet, Task
from agentgym.core.tools import Tool, ToolParameter
from agentgym.errors import UsageError
from agentgym.evaluation.board.leaderboard import build_leaderboard
from agentgym.evaluation.imports import react
from agentgym.evaluation.imports.comparison import Agreement, TaskFinder
from agentgym.evaluation.imports.dialects import DIALECTS
from agentgym.evaluation.imports.logs import LoggedEpisode
from agentgym.evaluation.log.runfiles import read_episodes, read_run
from agentgym.evaluation.verify.verification import verify_run
from agentgym.registration import open_env
from benchmarks.bridges.logs import (
    FEW_GAMES,
    as_chat,
    as_inspect,
    as_jsonl,
    as_notebook,
    as_react,
    as_verl_agent,
    played,
    replayed,
)
from benchmarks.fuzz.logs import hostile
from tests.suite_texts import env_table, suite_text

SOKOBAN = {"split": "test", "dim_room": [6, 6], "num_boxes": 1, "max_steps": 12}
SUITE = suite_text(
    "toys",
    env_table(
        "agentgym/Sokoban-v0", 3, label="S", kwargs={"dim_room": [6, 6], "num_boxes": 1, "max_steps": 12}
    ),
    seed=3,
    attempts=2,
)

WORDS = {
    "sokoban": "--env agentgym/Sokoban-v0 --split test --option dim_room=[6,6] --option num_boxes=1 "
    "--option max_steps=12",
    "alfworld": "--env logs/ALFWorld-v0 --split valid_seen",
    "webshop": "--env agentgym/WebShop-v0 --split test",
}
ENVS = {name: words.split() for name, words in WORDS.items()}


@pytest.fixture(scope="module")
def sokoban():
    return played("agentgym/Sokoban-v0", "random", rollouts=2, options=SOKOBAN)


@pytest.fixture(scope="module")
def alfworld():
    return played(FEW_GAMES, "rules", options={"split": "valid_seen"})


@pytest.fixture(scope="module")
def webshop():
    return played("agentgym/WebShop-v0", "oracle", options={"split": "test"})


@pytest.fixture
def run_import(cli, tmp_path):
    """Return a function that imports a log and returns the exit code and the report."""

    def run(dialect: str, text: str, *words: str, name: str = "log.jsonl"):
        log = tmp_path / name
        log.write_text(text, encoding="utf-8")
        out = tmp_path / "results"
        code, shown, err = cli("import", log, "--dialect", dialect, "--agent", "theirs", "--out", out, *words)
        reports = list(out.glob("*/*.import.json")) if out.exists() else []
        report = (
            json.loads(max(reports, key=lambda path: path.stat().st_mtime).read_text()) if reports else None
        )
        return code, shown + err, report

    return run


def test_a_log_becomes_a_run_that_verifies_and_a_row_that_says_whose_it_was(run_import, sokoban, tmp_path):
    code, shown, report = run_import(
        "jsonl", as_jsonl(sokoban), *ENVS["sokoban"], "--origin", "A et al. 2026"
    )
    assert code == 0, shown
    steps = sum(len(episode["steps"]) for episode in sokoban)
    counts = dict.fromkeys(("reward", "end", "validity", "state hash"), steps)
    assert report["compared"] == counts | {"observation": steps + 6, "score": 6, "success": 6}
    assert (report["episodes"], report["steps"], report["mismatches"]) == (6, steps, [])
    folder = Path(report["folder"])
    verdict = verify_run(folder)
    assert (verdict.ok, verdict.badge, verdict.episodes) == (True, "replayed", 6)
    run = read_run(folder)
    assert (run.agent.kind, run.agent.options["origin"], run.suite.attempts) == (
        "imported",
        "A et al. 2026",
        2,
    )
    assert [list(episode.actions) for episode in read_episodes(folder)] == [
        [step["action"] for step in episode["steps"]] for episode in sokoban
    ]
    board = build_leaderboard(tmp_path / "results", tmp_path / "LEADERBOARD.md").boards[0]
    assert [(row.name, row.badge) for row in board.rows] == [("theirs", "replayed")]
    assert "imported: A et al. 2026" in (tmp_path / "LEADERBOARD.md").read_text()


def test_a_byte_order_mark_is_no_part_of_a_log(run_import, alfworld):
    logs = {
        "jsonl": as_jsonl(alfworld),
        "inspect": as_inspect(alfworld, FEW_GAMES, "valid_seen"),
        "react": as_react(alfworld),
    }
    for dialect, text in logs.items():
        code, shown, _ = run_import(dialect, "\ufeff" + text, *ENVS["alfworld"])
        assert code == 0, shown


def changed(step: int, key: str, value: object):
    def change(episode: dict) -> None:
        place = episode if step == 0 else episode["steps"][step - 1]
        assert place[key] != value
        place[key] = value

    return change


@pytest.mark.parametrize(
    ("change", "quantity", "step"),
    [
        (changed(3, "reward", 0.7), "reward", 3),
        (changed(2, "observation", "A wall."), "observation", 2),
        (changed(0, "observation", "A wall."), "observation", 0),
        (changed(4, "done", True), "end", 4),
        (changed(1, "valid", None), None, None),
        (changed(5, "state_hash", "0" * 32), "state hash", 5),
        (changed(0, "score", 1.0), "score", 12),
        (changed(0, "success", True), "success", 12),
        (lambda episode: episode["steps"][2].update(valid=not episode["steps"][2]["valid"]), "validity", 3),
        (lambda episode: episode["steps"][5].update(action="fly"), "observation", 6),
        (lambda episode: episode["steps"].append(dict(episode["steps"][-1])), "end", 12),
    ],
)
def test_one_changed_value_is_listed_with_its_step_and_no_board_ranks_the_run(
    run_import, sokoban, tmp_path, change, quantity, step
):
    log = copy.deepcopy(sokoban)
    change(log[1])
    code, shown, report = run_import("jsonl", as_jsonl(log), *ENVS["sokoban"])
    if quantity is None:  # what a log does not say is not held against it
        assert (code, report["mismatches"]) == (0, [])
        return
    assert code == 1
    first = report["mismatches"][0]
    assert (first["quantity"], first["step"], first["where"][-2:]) == (quantity, step, ":2")
    assert f"log.jsonl:2, step {step}: {quantity}: " in shown
    assert ", which no board ranks: " in shown
    verdict = verify_run(Path(report["folder"]))
    assert [problem.kind for problem in verdict.problems] == ["agent"]
    assert f"step {step}: {quantity}" in verdict.problems[0].detail
    built = build_leaderboard(tmp_path / "results", tmp_path / "LEADERBOARD.md")
    assert built.boards == []
    assert built.unranked[0].reason.startswith("refused: agent: theirs: ")


def test_a_log_becomes_a_run_of_a_suite_and_is_ranked_on_its_board(run_import, cli, sokoban, tmp_path):
    suite = tmp_path / "toys.toml"
    suite.write_text(SUITE)
    assert cli("bench", suite, "--out", tmp_path / "results")[0] == 0
    words = ("--suite", str(suite), "--env", "S")
    code, shown, report = run_import("jsonl", as_jsonl(sokoban), *words)
    assert (code, report["missing"], report["not_recorded"]) == (0, 0, 0), shown
    (board,) = build_leaderboard(tmp_path / "results", tmp_path / "LEADERBOARD.md").boards
    assert {row.name for row in board.rows} == {"random", "oracle", "theirs"}
    assert next(row for row in board.rows if row.name == "theirs").rank is not None
    few = as_jsonl([*sokoban[:5], sokoban[4]])
    code, shown, report = run_import("jsonl", few, *words)
    assert (code, report["missing"], report["folder"]) == (
        0,
        0,
        str(tmp_path / "results" / "toys" / "theirs"),
    )
    code, shown, report = run_import("jsonl", as_jsonl(sokoban[:5]), *words, name="few.jsonl")
    assert (code, report["missing"], report["folder"]) == (0, 1, "None")
    assert "no run is written: 1 episodes that the suite asks for are not in the log" in shown


@pytest.mark.parametrize("notebook", [False, True])
def test_transcripts_of_react_are_read_without_their_thoughts(run_import, alfworld, notebook):
    text = as_react(alfworld)
    name, text = ("log.ipynb", as_notebook(text)) if notebook else ("log.txt", text)
    code, shown, report = run_import("react", text, *ENVS["alfworld"], name=name)
    assert code == 0, shown
    steps = sum(len(episode["steps"]) for episode in alfworld)
    assert (report["episodes"], report["steps"]) == (3, steps)
    assert report["compared"] == {"observation": steps + 3, "success": 3}


THOUGHTS = (
    "Thought: now I do it.",
    "Think: now I do it.",
    "THOUGHT: now I do it.",
    "think: now I do it.",
    "Thought 3: now I do it.",
    "think[now I do it]",
    "Thought: now I do it.\nThe room has a shelf.",
    "Thought:\nnow I do it.\n",
)


@pytest.mark.parametrize("thought", THOUGHTS)
def test_thoughts_on_lines_of_their_own_are_no_observations(run_import, alfworld, thought):
    def transcript(log: list) -> str:
        lines = []
        for episode in log:
            lines += [*episode["observation"].split("\n\n")[1:], ""]
            for step in episode["steps"]:
                lines += [thought, f"Action: {step['action']}", f"Observation: {step['observation']}"]
            lines += [thought, "-" * 12, ""]
        return "\n".join(lines)

    steps = sum(len(episode["steps"]) for episode in alfworld)
    for text in (transcript(alfworld), transcript(alfworld).replace("Action: ", "Action:\n")):
        code, shown, report = run_import("react", text, *ENVS["alfworld"])
        assert (code, report["episodes"], report["compared"]) == (0, 3, {"observation": steps + 3}), shown
    log = copy.deepcopy(alfworld)
    log[1]["steps"][2]["observation"] = "On the shelf 1, you see a unicorn 1."
    code, _, report = run_import("react", transcript(log), *ENVS["alfworld"])
    assert (code, [(m["step"], m["quantity"]) for m in report["mismatches"]]) == (1, [(3, "observation")])


def test_a_room_that_is_looked_at_begins_no_episode(run_import, alfworld):
    game = open_env(FEW_GAMES, split="valid_seen")
    actions = ["look", alfworld[0]["steps"][0]["action"], "look"]
    log = [replayed(game, alfworld[0]["task"], actions), *alfworld[1:]]
    log[0]["steps"][0]["observation"] = log[0]["observation"].split("\n\n")[1]  # as published games answer
    code, _, report = run_import("react", as_react(log), *ENVS["alfworld"])
    assert (code, report["episodes"]) == (1, 3)
    assert [(m["step"], m["quantity"]) for m in report["mismatches"]] == [(1, "observation")]


def test_a_changed_transcript_is_listed(run_import, alfworld):
    log = copy.deepcopy(alfworld)
    log[1]["steps"][2]["observation"] = "On the shelf 1, you see a unicorn 1."
    code, _, report = run_import("react", as_react(log), *ENVS["alfworld"])
    assert (code, [(m["step"], m["quantity"]) for m in report["mismatches"]]) == (1, [(3, "observation")])


def test_examples_in_a_prompt_and_other_runs_of_a_log_are_told_apart(run_import, alfworld):
    one, two, three = (as_react([episode]) for episode in alfworld)
    one = one.partition("STATUS")[0]
    text = f"Environment #0:\nHere are two examples.\n{one}\nHere is the task:\n{two}#####\n"
    text += f"Environment #1:\nHere is the task:\n{three}"
    code, shown, report = run_import("react", text, *ENVS["alfworld"])
    assert (code, report["episodes"], report["compared"]["success"]) == (0, 2, 2), shown


def test_a_transcript_names_the_game_and_the_line_of_each_episode(tmp_path):
    episode = "You are in the middle of a room.\nYour task is to look.\n> go to shelf 1\nA shelf.\n"
    log = tmp_path / "log.txt"
    log.write_text(f"using look-Mug-1/trial_T1\n{episode}STATUS: OK\nlook-Pen-2/trial_T2\n\n{episode}> look")
    first, second = react.read(log, ())
    assert (first.task, first.where, first.success) == ("look-Mug-1/trial_T1", f"{log}:2", True)
    assert (second.task, second.where, second.success) == ("look-Pen-2/trial_T2", f"{log}:9", None)
    assert [step.observation for step in second.steps] == ["A shelf.", None]  # the log ends before an answer


def test_a_task_is_found_by_what_seed_0_shows_first():
    def reset(seed=None, options=None):
        return f"{options['task']}, chance {seed}", {}

    tasks = ListTaskSet("two", [Task(name, None, name) for name in "ab"], dataset="two", suite="toys")
    finder = TaskFinder(SimpleNamespace(tasks=tasks, suite="toys", reset=reset), DIALECTS["jsonl"])
    assert finder.find(LoggedEpisode("x", (), observation="b, chance 0")) == ("b",)
    with pytest.raises(UsageError, match="no task of toys's split 'two' begins with"):
        finder.find(LoggedEpisode("x", (), observation="b, chance None"))


def test_a_mismatch_shows_the_log_first_and_where_texts_begin_to_differ():
    agreement = Agreement("log:1", "t", DIALECTS["jsonl"])
    agreement.add(2, "observation", "x" * 200 + "red wall", "x" * 200 + "blue wall")
    agreement.add(3, "reward", 0.5, 1.0)
    same = "x" * 20
    assert [str(each) for each in agreement.mismatches] == [
        f"log:1, step 2: observation: '{same}red wall' in the log, '{same}blue wall' here",
        "log:1, step 3: reward: 0.5 in the log, 1.0 here",
    ]


def test_react_shows_pages_of_a_shop_in_part(run_import, webshop):
    lines = []
    for episode in webshop:
        lines += ["Action: reset", "Observation: "]
        pieces = episode["observation"].split(" [SEP] ")
        lines += [*pieces[:-1], f"[{pieces[-1]}]", ""]
        for step in episode["steps"]:
            pieces = step["observation"].split(" [SEP] ")
            action = step["action"].replace("buy now", "Buy Now")
            shown = "\n" + "\n".join(f"[{piece}] " for piece in pieces[2:6])
            if step["done"]:
                shown = f"Your score (min 0.0, max 1.0): {step['reward']}"
            lines += [f"Action: think[{action} seems good]", "Observation: OK.", "", f"Action: {action}"]
            lines += [f"Observation: {shown}", ""]
        lines += ["1 0.6 0.3 0.0", "-------------", "-----------------", "1"]
    code, shown, report = run_import("react", "\n".join(lines), *ENVS["webshop"])
    assert code == 0, shown
    steps = sum(len(episode["steps"]) for episode in webshop)
    assert report["compared"] == {"observation": steps, "reward": 3, "end": 3}
    worse = [line.replace("max 1.0): 1.0", "max 1.0): 0.9") for line in lines]
    code, _, report = run_import("react", "\n".join(worse), *ENVS["webshop"])
    assert {m["quantity"] for m in report["mismatches"]} == {"reward"}


def test_tables_of_verl_agent_are_put_in_order(run_import, alfworld):
    code, shown, report = run_import("verl-agent", as_verl_agent(alfworld), *ENVS["alfworld"])
    assert code == 0, shown
    steps = sum(len(episode["steps"]) for episode in alfworld)
    assert report["compared"] == {"observation": steps, "reward": steps, "end": steps}
    assert report["steps"] == steps
    log = copy.deepcopy(alfworld)
    log[2]["steps"][1]["reward"] = 10.0
    code, _, report = run_import("verl-agent", as_verl_agent(log), *ENVS["alfworld"])
    assert (code, [(m["step"], m["quantity"]) for m in report["mismatches"]]) == (1, [(2, "reward")])


def test_calls_of_chats_are_actions_and_messages_of_tools_observations(run_import, alfworld):
    text = as_chat(alfworld, FEW_GAMES, "valid_seen")
    steps = sum(len(episode["steps"]) for episode in alfworld)
    code, shown, report = run_import("chat", text, *ENVS["alfworld"])
    assert (code, report["episodes"]) == (0, 3), shown
    assert report["compared"] == {"observation": steps + 3, "success": 3}
    one = json.loads(text.partition("\n")[0])["messages"]
    for each in (json.dumps(one), json.dumps([{"messages": one}]), "\n".join(map(json.dumps, one))):
        code, shown, report = run_import("chat", each, *ENVS["alfworld"])
        assert (code, report["episodes"]) == (0, 1), shown
    log = copy.deepcopy(alfworld)
    log[1]["steps"][2]["observation"] += " Here is a unicorn 1."
    log[2]["observation"] = log[2]["observation"].replace("put", "drop", 1)
    log[2]["observation"] = log[2]["observation"][:-1] + "!"
    code, _, report = run_import("chat", as_chat(log, FEW_GAMES, "valid_seen"), *ENVS["alfworld"])
    assert [(m["step"], m["quantity"]) for m in report["mismatches"]] == [(3, "observation")]
    assert (code, len(report["not_found"])) == (1, 1)


def test_parallel_calls_of_a_chat_are_one_action(tmp_path):
    calls = [{"function": {"name": "search", "arguments": {"query": each}}} for each in ("one", "two")]
    calls += [{"function": {"name": "answer", "arguments": '{"text": "x"}'}}]
    log = [{"role": "assistant", "tool_calls": part} for part in (calls[:2], calls[2:])]
    log.insert(1, {"role": "tool", "content": "found"})
    log.append({"role": "tool", "content": "right"})
    (tmp_path / "log.json").write_text(json.dumps(log))
    tools = (ToolParameter("query"), ToolParameter("text"))
    tools = (Tool("search", "", tools[:1], parallel=True), Tool("answer", "", tools[1:]))
    (episode,) = DIALECTS["chat"].read(tmp_path / "log.json", tools)
    assert [(step.action, step.observation) for step in episode.steps] == [
        ("search[one]\nsearch[two]", None),
        ("answer[x]", "right"),
    ]


def test_messages_of_inspect_ai_may_stand_in_parts(run_import, alfworld):
    log = json.loads(as_inspect(alfworld, FEW_GAMES, "valid_seen"))
    for message in (message for sample in log["samples"] for message in sample["messages"]):
        if isinstance(text := message["content"], str):
            parts = [{"type": "text", "text": part} for part in (text[:9], text[9:])]
            message["content"] = [parts[0], {"type": "image", "image": "none"}, parts[1]]
    code, shown, report = run_import("inspect", json.dumps(log), *ENVS["alfworld"], name="log.json")
    assert code == 0, shown
    assert report["compared"]["observation"] == report["steps"] + 3


def test_logs_of_inspect_ai_say_what_was_played(run_import, alfworld):
    text = as_inspect(alfworld, FEW_GAMES, "valid_seen")
    code, shown, report = run_import("inspect", text, *ENVS["alfworld"], name="log.json")
    assert code == 0, shown
    steps = sum(len(episode["steps"]) for episode in alfworld)
    assert report["compared"] == {"observation": steps + 3, "reward": steps, "score": 3}
    code, shown, _ = run_import("inspect", text, name="log.json")
    assert (code, "the log was played in --env logs/ALFWorld-v0 --split valid_seen" in shown) == (2, True)
    code, shown, _ = run_import("inspect", text, *ENVS["webshop"], name="log.json")
    assert (code, "the log was played in --env logs/ALFWorld-v0" in shown) == (2, True)
    log = copy.deepcopy(alfworld)
    log[0]["steps"][2]["reward"] = 1.0
    text = as_inspect(log, FEW_GAMES, "valid_seen")
    code, _, report = run_import("inspect", text, *ENVS["alfworld"], name="log.json")
    assert (code, [(m["step"], m["quantity"]) for m in report["mismatches"]]) == (1, [(3, "reward")])


def test_a_log_that_an_earlier_version_exported(run_import, sokoban):
    samples = [
        {
            "id": f"Sokoban/{episode['task']}",
            "scores": {"score": {"value": episode["score"]}},
            "metadata": {key + "s": [step[key] for step in episode["steps"]] for key in ("action", "reward")},
        }
        for episode in sokoban
    ]
    text = json.dumps({"version": 2, "samples": samples})
    code, shown, report = run_import("inspect", text, *ENVS["sokoban"], name="log.json")
    assert code == 0, shown
    assert report["compared"]["score"] == report["episodes"] == len(sokoban)


def test_what_is_not_at_hand_is_not_compared(run_import, alfworld):
    log = copy.deepcopy(alfworld)
    log[0]["task"] = "/data/json_2.1.1/valid_unseen/look-1/trial_T2/game.tw-pddl"
    code, shown, report = run_import("jsonl", as_jsonl(log), *ENVS["alfworld"])
    assert (code, report["episodes"], len(report["not_found"])) == (0, 2, 1)
    assert "not compared: " in shown
    code, shown, _ = run_import("jsonl", as_jsonl(log[:1]), *ENVS["alfworld"])
    assert (code, "no task of alfworld's split 'valid_seen' is called" in shown) == (2, True)


@pytest.mark.parametrize(
    ("dialect", "text", "message"),
    [
        ("jsonl", "", "holds no episode"),
        ("jsonl", "{", "not JSON"),
        ("jsonl", '{"task": "x", "step": []}', "unknown key 'step'"),
        ("jsonl", '{"task": "x", "steps": [{"action": 3}]}', "steps: action: expected a string, got 3"),
        ("jsonl", '{"steps": []}', "it says neither the task nor what was seen first"),
        ("chat", '{"messages": [{"role": "user", "content": "x"}]}', "holds no tool call"),
        (
            "chat",
            '{"messages": [{"content": "x"}]}',
            "is not a list of OpenAI's chat messages: KeyError 'role'",
        ),
        ("react", "Hello", "no episode: one begins with"),
        (
            "react",
            "You are in the middle of a room.\nTask\n> go north\nYou go.",
            "begins with 'You are in the",
        ),
        ("verl-agent", '{"reward": 1.0}', "key 'traj_uid' is missing"),
        ("verl-agent", '{"traj_uid": "x", "reward": "1"}', "reward: expected a number, got '1'"),
        ("inspect", "{}", "is not a log of inspect_ai, version 2"),
        ("inspect", '{"version": 2, "samples": [{}]}', "sample 1 is not as this package writes it: KeyError"),
        ("inspect", '{"version": 2, "samples": [3]}', "sample 1 is not as this package writes it: TypeError"),
    ],
)
def test_a_bad_log_is_one_line(run_import, dialect, text, message):
    code, shown, _ = run_import(dialect, text, *ENVS["sokoban"], name="log.json")
    assert code == 2
    assert message in shown.splitlines()[-1]
    assert shown.count("agentgym: ") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "say what the log was played in: --env ENV, or --suite SUITE --env LABEL"),
        (
            ["--suite", "quick"],
            "suite quick has several environments; name the log's with --env: Sokoban 1 box",
        ),
        (["--suite", "quick", "--split", "test"], "--split, --dataset and --option go without --suite"),
        ([*ENVS["sokoban"], "--option", "split=test"], "option 'split' has its own flag: use --split"),
        ([*ENVS["sokoban"], "--agent", "a b"], "agent name 'a b' must be letters"),
    ],
)
def test_bad_words_are_one_line(run_import, sokoban, words, message):
    code, shown, _ = run_import("jsonl", as_jsonl(sokoban), *words)
    assert (code, shown.count("\n")) == (2, 1)
    assert message in shown


def test_a_packed_log_of_inspect_ai_names_the_command(run_import):
    code, shown, _ = run_import("inspect", "PK", *ENVS["sokoban"], name="log.eval")
    assert (code, "inspect log convert LOG --to json" in shown) == (2, True)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_hostile_logs_end_in_one_line(dialect, tmp_path):
    outcomes = hostile(dialect, 25, seed=7, folder=tmp_path)
    assert sum(outcomes.values()) == 25
    assert outcomes["refused"] > 0
