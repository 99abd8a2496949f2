"""Verification accepts what was played and rejects every change to it."""

import json
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest

from agentgym.agents import make_agent
from agentgym.errors import UsageError
from agentgym.evaluation.log.results import EPISODES_FILE, RUN_FILE, EvalSample, episode_lines
from agentgym.evaluation.log.runfiles import read_episodes, read_run
from agentgym.evaluation.play.bench import open_suite_task, play
from agentgym.evaluation.suites import suite_file_of_run
from agentgym.evaluation.suites.plan import PlannedEpisode
from agentgym.evaluation.suites.suite import load_suite
from agentgym.evaluation.verify.verification import verify_run
from tests.evaluation.making import write_complete

Table = dict[str, Any]


def rewrite(folder: Path, episodes: list[EvalSample], *, consistent: bool) -> None:
    """Write other episodes; consistently means with the ids and digests that go with them."""
    if consistent:
        write_complete(folder, read_run(folder), episodes)
    else:
        (folder / EPISODES_FILE).write_bytes(episode_lines(episodes))


def rewrite_run(folder: Path, edit: Callable[[Table], None], *, consistent: bool) -> None:
    table = json.loads((folder / RUN_FILE).read_text())
    edit(table)
    (folder / RUN_FILE).write_text(json.dumps(table))
    if consistent:
        write_complete(folder, read_run(folder), read_episodes(folder))


def kinds(folder: Path) -> set[str]:
    verdict = verify_run(folder, rerun=False)
    assert verdict.ok == (not verdict.problems)
    assert verdict.badge == ("replayed" if verdict.ok else "claimed")
    assert verdict.role == "agent"
    return {problem.kind for problem in verdict.problems}


def test_an_honest_run_is_replayed(run_folder: Path) -> None:
    verdict = verify_run(run_folder, rerun=False)
    assert verdict.problems == ()
    assert (verdict.ok, verdict.badge, verdict.episodes) == (True, "replayed", 44)
    assert verdict.steps == sum(episode.length for episode in read_episodes(run_folder))


def test_an_agent_that_follows_from_the_request_plays_again(run_folder: Path) -> None:
    verdict = verify_run(run_folder)
    assert (verdict.badge, verdict.role) == ("re-run", "oracle")
    random = next(run_folder.parent.glob("random-*"))
    verdict = verify_run(random)
    assert (verdict.badge, verdict.role) == ("re-run", "floor")


def test_an_agent_that_plays_otherwise_is_not(run_folder: Path) -> None:
    random = next(run_folder.parent.glob("random-*"))
    rewrite_run(random, lambda run: run["agent"].update(kind="random-strings", name="new"), consistent=True)
    verdict = verify_run(random)
    assert {problem.kind for problem in verdict.problems} == {"re-run"}
    assert verify_run(random, rerun=False).ok


def wrong_action(episode: EvalSample) -> EvalSample:
    return replace(episode, actions=("left", *episode.actions[1:]))


def wrong_reward(episode: EvalSample) -> EvalSample:
    return replace(episode, rewards=(*episode.rewards[:-1], episode.rewards[-1] + 2**-40))


def wrong_link(episode: EvalSample) -> EvalSample:
    return replace(episode, hash_chain=(*episode.hash_chain[:-1], "0" * 32))


def better_end(episode: EvalSample) -> EvalSample:
    return replace(episode, won=True, score=1.0, progress=1.0, end_reason="success")


def cut_short(episode: EvalSample) -> EvalSample:
    return replace(
        episode,
        actions=episode.actions[:-1],
        rewards=episode.rewards[:-1],
        hash_chain=episode.hash_chain[:-1],
        length=episode.length - 1,
    )


def drawn_out(episode: EvalSample) -> EvalSample:
    return replace(
        episode,
        actions=(*episode.actions, "right"),
        rewards=(*episode.rewards, 1.0),
        hash_chain=(*episode.hash_chain, "0" * 32),
        length=episode.length + 1,
    )


EDITS: dict[str, Callable[[EvalSample], EvalSample]] = {
    "action": wrong_action,
    "reward": wrong_reward,
    "hash chain": wrong_link,
    "return": lambda e: replace(e, episode_return=e.episode_return + 1.0),
    "score": lambda e: replace(e, score=0.5),
    "progress": lambda e: replace(e, progress=0.25),
    "length": lambda e: replace(e, length=e.length + 1),
    "invalid count": lambda e: replace(e, invalid_count=1),
    "task type": lambda e: replace(e, task_type="other"),
    "end": better_end,
    "cut short": cut_short,
    "cut short, called an error": lambda e: replace(cut_short(e), end_reason="agent_error"),
    "drawn out": drawn_out,
    "sign of zero": lambda e: replace(e, progress=-e.progress),
}


@pytest.mark.parametrize("consistent", [False, True])
@pytest.mark.parametrize("name", EDITS)
def test_a_changed_episode_is_rejected(run_folder: Path, name: str, consistent: bool) -> None:
    episodes = read_episodes(run_folder)
    # one that was lost at the step limit, so that every edit changes something
    index = next(i for i, episode in enumerate(episodes) if episode.end_reason == "step_limit")
    episodes[index] = EDITS[name](episodes[index])
    rewrite(run_folder, episodes, consistent=consistent)
    assert kinds(run_folder) == ({"replay"} if consistent else {"chain", "file", "result"})
    assert not verify_run(run_folder).ok


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"seed": 1}, {"seed"}),
        ({"rollout": 2}, {"unknown", "missing"}),
        ({"task_id": "f" * 32}, {"unknown", "missing"}),
        ({"task_id": f"{5:032x}"}, {"chain", "missing"}),
        ({"env": "Other"}, {"missing"}),
    ],
)
def test_an_episode_filed_elsewhere_is_rejected(run_folder: Path, changes: Table, kind: set[str]) -> None:
    episodes = sorted(read_episodes(run_folder), key=lambda episode: episode.key)
    episodes[0] = replace(episodes[0], **changes)
    rewrite(run_folder, episodes, consistent=True)
    # a changed seed leaves the replay, which uses the suite's, as recorded but for the seed itself
    assert kinds(run_folder) - {"replay"} == kind - {"replay"}


@pytest.mark.parametrize("consistent", [False, True])
def test_a_dropped_episode_is_rejected(run_folder: Path, consistent: bool) -> None:
    rewrite(run_folder, read_episodes(run_folder)[:-1], consistent=consistent)
    assert kinds(run_folder) == {"missing"} | (set() if consistent else {"file", "result"})


@pytest.mark.parametrize("consistent", [False, True])
def test_a_duplicated_episode_is_rejected(run_folder: Path, consistent: bool) -> None:
    episodes = read_episodes(run_folder)
    rewrite(run_folder, [*episodes, episodes[3]], consistent=consistent)
    assert kinds(run_folder) == {"chain"} | (set() if consistent else {"file"})


@pytest.mark.parametrize("cut", [1, 40])
def test_a_truncated_file_is_rejected(run_folder: Path, cut: int) -> None:
    data = (run_folder / EPISODES_FILE).read_bytes()
    (run_folder / EPISODES_FILE).write_bytes(data[:-cut])
    assert kinds(run_folder) == {"malformed", "missing", "file", "result"}


@pytest.mark.parametrize("line", [b"{}", b"[]", b"not json", b'{"env": NaN}', b"\xff\xfe", b""])
def test_a_malformed_line_is_rejected(run_folder: Path, line: bytes) -> None:
    data = (run_folder / EPISODES_FILE).read_bytes()
    (run_folder / EPISODES_FILE).write_bytes(line + b"\n" + data)
    assert kinds(run_folder) == {"malformed", "file"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cost", "1e999"),
        ("cost", "-1.0"),
        ("prompt_tokens", "-1"),
        ("prompt_tokens", f"1{'0' * 400}"),
        ("cost", "0"),
        ("cost", '9.0,"cost":0.0'),
        ("cost", " 0.0"),
        ("actions", r'["\ud800"]'),
    ],
)
def test_a_line_that_two_readers_may_read_otherwise_is_rejected(
    run_folder: Path, key: str, value: str
) -> None:
    first, rest = (run_folder / EPISODES_FILE).read_text().split("\n", 1)
    head, tail = first.split(f'"{key}":')
    old = json.dumps(json.loads(first)[key], separators=(",", ":"))
    assert tail.startswith(old)
    (run_folder / EPISODES_FILE).write_text(f'{head}"{key}":{value}{tail.removeprefix(old)}\n{rest}')
    assert kinds(run_folder) == {"malformed", "chain", "missing", "file", "result"}


@pytest.mark.parametrize("name", [RUN_FILE, EPISODES_FILE])
def test_a_file_nested_without_end_is_rejected(run_folder: Path, name: str) -> None:
    (run_folder / name).write_text("[" * 200_000 + "\n")
    assert kinds(run_folder) == ({"run"} if name == RUN_FILE else {"malformed", "missing", "file", "result"})


@pytest.mark.parametrize(
    "edit",
    [
        lambda run: run.update(provenance=[]),
        lambda run: run["agent"].update(parser="\ud800"),
        lambda run: run["agent"]["options"].update(temperature=float("inf")),
    ],
)
def test_a_run_file_that_cannot_be_written_again_is_rejected(
    run_folder: Path, edit: Callable[[Table], None]
) -> None:
    table = json.loads((run_folder / RUN_FILE).read_text())
    edit(table)
    (run_folder / RUN_FILE).write_text(json.dumps(table).replace("Infinity", "1e999"))
    assert kinds(run_folder) == {"run"}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 99}', '{"schema": 1}'])
def test_a_malformed_run_file_is_rejected(run_folder: Path, text: str) -> None:
    (run_folder / RUN_FILE).write_text(text)
    assert kinds(run_folder) == {"run"}


def change_manifest(run: Table) -> None:
    run["envs"][0]["manifest_sha256"] = "0" * 64


def change_suite_seed(run: Table) -> None:
    run["suite"]["seed"] = 8


def change_options(run: Table) -> None:
    run["envs"][1]["env"]["kwargs"]["slip"] = 0.0


def change_spec(run: Table) -> None:
    run["envs"][1]["spec"] = run["envs"][0]["spec"]


def change_task_count(run: Table) -> None:
    run["envs"][1]["env"]["tasks"] = 9


def drop_environment(run: Table) -> None:
    run["envs"].pop()


def add_environment(run: Table) -> None:
    run["envs"].append({**run["envs"][0], "env": {**run["envs"][0]["env"], "label": "Third"}})


def borrow_name(run: Table) -> None:
    run["agent"]["options"] = {"temperature": 0}


@pytest.mark.parametrize(
    ("edit", "kind"),
    [
        (change_manifest, "manifest"),
        (change_suite_seed, "suite"),
        (change_options, "environment"),
        (change_spec, "environment"),
        (change_task_count, "environment"),
        (drop_environment, "environment"),
        (add_environment, "environment"),
        (borrow_name, "agent"),
    ],
)
@pytest.mark.parametrize("consistent", [False, True])
def test_a_changed_request_is_rejected(
    run_folder: Path, edit: Callable[[Table], None], kind: str, consistent: bool
) -> None:
    rewrite_run(run_folder, edit, consistent=consistent)
    found = kinds(run_folder)
    assert kind in found or (kind == "manifest" and not consistent)  # for which tasks would be opened
    assert ("request" in found) != consistent


@pytest.mark.parametrize("key", ["request_id", "result_id", "episodes_sha256", "record_id"])
def test_a_changed_digest_is_rejected(run_folder: Path, key: str) -> None:
    rewrite_run(run_folder, lambda run: run.update({key: "0" * 64}), consistent=False)
    expected = {
        "request_id": {"request", "result", "chain"},
        "result_id": {"result"},
        "episodes_sha256": {"file"},
        "record_id": set(),
    }
    assert kinds(run_folder) == expected[key] | {"record"}


def test_an_unfinished_run_is_rejected(run_folder: Path) -> None:
    rewrite_run(run_folder, lambda run: run.update(result_id=None, episodes_sha256=None), consistent=False)
    assert kinds(run_folder) == {"unfinished"}


def genuine(folder: Path, task: int, seed: int, rollout: int) -> EvalSample:
    """Play a real episode of the second environment, with whatever task and seed."""
    suite = load_suite(suite_file_of_run(folder, "small"))
    suite_task = open_suite_task(suite, suite.env[1], num_envs=1)
    policy = make_agent("oracle", suite_task.slots)
    planned = PlannedEpisode(suite_task.env.label, suite_task.slots.tasks[task], seed, rollout)
    (record,) = play(suite_task, "random", policy, [planned])
    return record


def lost(episodes: list[EvalSample]) -> int:
    return next(i for i, e in enumerate(episodes) if e.env == "Ice" and e.end_reason == "step_limit")


def test_a_self_consistent_forgery_with_a_luckier_seed_is_rejected(run_folder: Path) -> None:
    episodes = read_episodes(run_folder)
    index = lost(episodes)
    loser = episodes[index]
    records = (genuine(run_folder, int(loser.task_id, 16), seed, loser.rollout) for seed in range(100_000))
    winner = next(record for record in records if record.won)
    episodes[index] = winner
    rewrite(run_folder, episodes, consistent=True)
    assert kinds(run_folder) == {"seed", "replay"}
    # the same, but claiming the suite's seed
    episodes[index] = replace(winner, seed=loser.seed)
    rewrite(run_folder, episodes, consistent=True)
    assert kinds(run_folder) == {"replay"}


def test_a_self_consistent_forgery_with_an_easier_task_is_rejected(run_folder: Path) -> None:
    episodes = read_episodes(run_folder)
    index, winner = next(
        (index, record)
        for index, loser in enumerate(episodes)
        if loser.env == "Ice" and not loser.won
        for task in range(40)
        if (record := genuine(run_folder, task, loser.seed, loser.rollout)).won
    )
    loser = episodes[index]
    assert winner.task_id != loser.task_id
    episodes[index] = winner
    rewrite(run_folder, episodes, consistent=True)
    assert "missing" in kinds(run_folder)
    # the same, but claiming the suite's task
    episodes[index] = replace(winner, task_id=loser.task_id)
    rewrite(run_folder, episodes, consistent=True)
    assert kinds(run_folder) == {"replay"}


def test_a_changed_data_set_is_rejected(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRIDOR_TASKS", "39")
    assert kinds(run_folder) == {"manifest"}


def test_no_run_and_no_suite_are_usage_errors(run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name the folder of a run"):
        verify_run(tmp_path / "nowhere")
    (run_folder.parents[2] / "suites" / "small.toml").unlink()
    with pytest.raises(UsageError, match="name the suite file with --suite"):
        verify_run(run_folder)


def test_the_record_holds_everything_that_is_compared(run_folder: Path) -> None:
    """A key that verification neither recomputes nor leaves to the agent would be free to forge."""
    keys = set(asdict(read_episodes(run_folder)[0]))
    stated = {field.name for field in fields(EvalSample) if field.metadata.get("stated")}
    assert stated == {
        "prompt_tokens",
        "completion_tokens",
        "cost",
        "env_seconds",
        "model_seconds",
        "format_errors",
    }
    identity = {"env", "task_id", "rollout", "seed", "actions"}
    chain = {"attempt", "previous", "transcript"}
    assert keys - stated - identity - chain == {
        "task_type",
        "rewards",
        "hash_chain",
        "episode_return",
        "score",
        "won",
        "progress",
        "length",
        "invalid_count",
        "end_reason",
        "measures",
    }
