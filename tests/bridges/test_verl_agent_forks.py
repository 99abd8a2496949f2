"""Forks of verl-agent under their own trainer, by no diff; Search; and the report on forks."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from agentgym.bridges.verl_agent import ray_environment, replace_workers
from agentgym.core.queries import UnansweredError
from agentgym.envs.multihop.builtin.articles import builtin_passages
from agentgym.errors import UsageError
from benchmarks.bridges.forks import COMPARED, differences, markdown
from tests.bridges.verl_agent_stand_in import config, make_envs, standing_in, write_checkout

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "benchmarks" / "bridges" / "forks.json"

RAY = """
import importlib, json, os, subprocess, sys
def init(runtime_env=None):
    module, _, name = os.environ["RAY_RUNTIME_ENV_HOOK"].rpartition(".")
    given = getattr(importlib.import_module(module), name)(runtime_env)
    init.hook, init.variables = given.pop("worker_process_setup_hook"), given
def task(code, argument):
    module, _, name = init.hook.rpartition(".")
    setup = f"import importlib, json, sys; importlib.import_module({module!r}).{name}();"
    command = [sys.executable, "-c", setup + code, argument]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
"""
"""What Ray documents of its hook, and of the one that runs in each process that it starts."""

TRAINER = """
import json, sys
import ray
ray.init(runtime_env={"env_vars": {"NCCL_DEBUG": "WARN"}})
TASK = '''
from agent_system.environments import make_envs
from tests.bridges.verl_agent_stand_in import config
train, valid = make_envs(config("sokoban", validation=2, anchor=sys.argv[1]))
seen, infos = valid.reset(None)
print(json.dumps([type(valid.envs).__name__, seen["anchor"] == [info["state_hash"] for info in infos],
    seen["anchor"] == seen["text"], valid.envs.panel.name]))
'''
print(json.dumps([__name__, sys.argv[1:], ray.init.variables, ray.task(TASK, sys.argv[1])]))
"""


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    yield from standing_in(tmp_path, monkeypatch)


def run(folder, *arguments, **variables):
    """Run the module in a folder, as users do."""
    command = [sys.executable, "-m", "agentgym.bridges.verl_agent", *arguments]
    env = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


def write_fork(folder):
    write_checkout(folder)
    (folder / "verl" / "trainer").mkdir(parents=True)
    (folder / "verl" / "trainer" / "main_ppo.py").write_text(TRAINER)
    (folder / "ray.py").write_text(RAY)


@pytest.mark.parametrize(("anchor", "by_state"), [("state", True), ("text", False)])
def test_a_fork_s_trainer_gets_our_environments_in_its_ray_tasks(anchor, by_state, tmp_path):
    write_fork(tmp_path)
    done = run(tmp_path, "verl.trainer.main_ppo", anchor, "b=2")
    assert done.returncode == 0, done.stderr
    name, arguments, variables, seen = json.loads(done.stdout)
    assert (name, arguments) == ("__main__", [anchor, "b=2"])
    assert variables == {"env_vars": {"NCCL_DEBUG": "WARN"}}
    assert seen == ["ForkRows", by_state, not by_state, "valid[:2]"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name the checkout's trainer"),
        (["--help"], "name the checkout's trainer"),
        (["verl.trainer.main_sdar"], "no module 'verl.trainer.main_sdar'"),
        (["verl.trainers.main_ppo"], "no module 'verl.trainers.main_ppo'"),
    ],
)
def test_a_trainer_that_is_not_there_is_one_line(arguments, message, tmp_path):
    write_fork(tmp_path)
    done = run(tmp_path, *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("error: ")
    assert message in done.stderr


def test_outside_a_checkout_and_with_another_hook_it_is_one_line(tmp_path):
    done = run(tmp_path, "verl.trainer.main_ppo")
    assert done.stderr.startswith("error: there is no agent_system here")
    write_fork(tmp_path)
    done = run(tmp_path, "verl.trainer.main_ppo", RAY_RUNTIME_ENV_HOOK="other.hook")
    assert done.stderr == "error: RAY_RUNTIME_ENV_HOOK is 'other.hook': unset it, since this needs its own\n"


def test_ray_keeps_what_a_trainer_gives_it():
    hook = {"worker_process_setup_hook": "agentgym.bridges.verl_agent.replace_workers"}
    assert ray_environment(None) == hook
    assert ray_environment({"env_vars": {"A": "1"}}) == {"env_vars": {"A": "1"}, **hook}


def test_managers_over_the_checkout_s_own_workers_are_refused(checkout, monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [each for each in sys.meta_path if "Fork" not in repr(each)])
    monkeypatch.setitem(sys.modules, "agent_system.environments.env_manager", sys)
    with pytest.raises(UsageError, match="imported already"):
        replace_workers()


# ---- Search --------------------------------------------------------------------------------------------

ASKED = {
    "question": "Who?",
    "ground_truth": {"target": ["Ada Lovelace", "the Countess"]},
    "data_source": "nq",
}


@pytest.fixture
def server():
    """Serve two documents whatever is asked, and remember what was; one query is answered wrongly."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.path, query))
            documents = [
                {"document": {"id": str(i), "contents": f'"T{i}"\nText é.\n'}, "score": 1.0} for i in (1, 2)
            ]
            body = json.dumps({"results" if query["query"] == "broken" else "result": [documents]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}/retrieve", asked
        running.shutdown()
        thread.join()


def searching(url=None, **options):
    """Return the managers of Search; validation has three rows."""
    made = config("search", tasks=1, group=2, validation=3, **options)
    made.env.max_steps = 3
    if url is not None:
        made.env.search.search_url = url
    return make_envs(made)


def test_search_by_the_checkout_s_questions_and_server(checkout, server):
    url, asked = server
    _, valid = searching(url)
    observations, infos = valid.reset([ASKED, ASKED])  # fewer than rows, as the last batch of a data file
    assert observations["text"] == ["Who?", "Who?"]
    assert [info["data_source"] for info in infos] == ["nq", "nq"]
    first = observations["anchor"]
    assert first[0] == first[1] == infos[0]["state_hash"]
    observations, rewards, dones, infos = valid.step(["<search> a b </search>", "<search></search>"])
    found = json.dumps({"result": 'Doc 1: "T1"\nText é.\nDoc 2: "T2"\nText é.\n'})
    assert observations["text"] == [
        f"<information>{found}</information>",
        '<information>{"result": ""}</information>',
    ]
    assert asked == [("/retrieve", {"query": "a b", "topk": 3, "return_scores": True})]
    assert (rewards, dones) == ([0.0, 0.0], [False, False])
    assert len({*first, *observations["anchor"]}) == 3
    actions = ["<answer>The countess!</answer>", "<answer>Lovelace</answer>"]
    observations, rewards, dones, infos = valid.step(actions)
    assert (rewards, dones, observations["text"]) == ([1.0, 0.0], [True, True], ["", ""])
    assert [(info["won"], info["f1"]) for info in infos] == [(True, 1.0), (False, pytest.approx(2 / 3))]
    assert valid.step(actions)[1:3] == ([0.0, 0.0], [True, True])  # over: nothing is paid again
    with pytest.raises(UsageError, match="4 questions for 3 rows"):
        valid.reset([ASKED] * 4)
    with pytest.raises(UsageError, match="hold question and ground_truth"):
        valid.reset([{"task": "1"}])
    valid.close()


def test_search_ends_at_its_limit_and_takes_the_last_answer(checkout, server):
    _, valid = searching(server[0])
    valid.reset([{**ASKED, "ground_truth": {"target": "x"}}])
    for _ in range(2):
        assert valid.step([""])[1:3] == ([0.0], [False])
    assert valid.step(["<search>once more</search>"])[1:3] == ([0.0], [True])
    assert server[1] == []  # a search at the limit is not made, as in the checkout
    valid.reset([{**ASKED, "ground_truth": {"target": "x"}}])
    assert valid.step(["<answer>y</answer><answer>x</answer>"])[1:3] == ([1.0], [True])


def test_search_over_our_questions_and_index(checkout):
    train, valid = searching(dataset="builtin", search="bm25")
    _, infos = valid.reset(None)
    assert valid.envs.panel.name == "test[:3]"
    assert [info["task_id"] for info in infos] == [task.id for task in valid.envs.panel.tasks]
    task = valid.envs.panel.tasks[1]
    title = builtin_passages()[task.content.supporting[0]].title
    observations, *_ = valid.step(["", f"<search>{title}</search>", ""])
    assert observations["text"][0] == ""
    assert f'Doc 1: \\"{title}\\"\\n' in observations["text"][1]
    assert valid.step(["", f"<answer>{task.content.answer}</answer>", ""])[1] == [0.0, 1.0, 0.0]
    drawn = [info["task_id"] for info in train.reset(None)[1]]
    assert (len(drawn), len(set(drawn))) == (2, 1)
    known = train.envs.tasks[7].id
    assert [info["task_id"] for info in train.reset([{"task": known}] * 2)[1]] == [known] * 2


def test_search_without_questions_or_server_is_one_line(checkout, server):
    train, valid = searching()
    with pytest.raises(UsageError, match=r"\+env.agentgym.dataset="):
        train.reset(None)
    valid.reset([ASKED])
    with pytest.raises(UnansweredError, match=r"the retrieval server http://127\.0\.0\.1:9"):
        valid.step(["<search>a</search>"])
    _, valid = searching(server[0])
    valid.reset([ASKED])
    with pytest.raises(UnansweredError, match="gives no answer of a retrieval server"):
        valid.step(["<search>broken</search>"])


# ---- the report ----------------------------------------------------------------------------------------


def test_differences_are_counted_by_field():
    one = [0, "prompt", "anchor", "text", 0.0, False, True, False]
    other = [0, "prompt", "other", "text", 1.0, False, True, True]
    assert differences([one], [one]) == dict.fromkeys(COMPARED, 0)
    assert differences([one], [other]) == {
        **dict.fromkeys(COMPARED, 0),
        **{"anchor": 1, "reward": 1, "won": 1},
    }
    assert differences([one, one], [one]) == dict.fromkeys(COMPARED, 1)


def test_every_fork_runs_and_plays_search_as_its_own_workers():
    report = json.loads(REPORT.read_text(encoding="utf-8"))
    assert REPORT.with_suffix(".md").read_text(encoding="utf-8") == markdown(report)
    assert len(report["forks"]) == 6
    for fork in report["forks"].values():
        assert fork["trainers"]
        assert all(trainer["reached"] for trainer in fork["trainers"].values())
        assert min(suite["steps"] for suite in fork["suites"].values()) >= 80
        assert (fork["search"]["episodes"], set(fork["search"]["differences"].values())) == (200, {0})
    panels = {
        name: {f["suites"][name]["panel"]["sha256"] for f in report["forks"].values()}
        for name in ("webshop",)
    }
    assert len(panels["webshop"]) == 1
