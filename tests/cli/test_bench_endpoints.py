"""``agentgym bench`` with models of directories and of endpoints: flags, estimates, derived suites."""

import contextlib
import json
import shlex
import socket

import pytest

from agentgym.endpoint.errors import EndpointError
from agentgym.endpoint.reach import check_reachable
from agentgym.endpoint.sending import ChatSender
from agentgym.endpoint.spec import EndpointSpec
from agentgym.evaluation.log.runfiles import read_run
from agentgym.inference.models.language_model import save_model
from agentgym.inference.models.tiny import tiny_model, word_tokenizer
from tests.cli.conftest import SUITE
from tests.cli.test_docs import commands
from tests.evaluation.chat_server import serving

URL = "http://127.0.0.1:9/v1"


@pytest.fixture(scope="module")
def server():
    with serving() as server:
        yield server


def test_agents_of_an_endpoint(cli, suite, tmp_path, server):
    words = ("bench", suite, "--out", tmp_path / "runs", "--endpoint", server.url, "--no-probe", "--verify")
    code, out, err = cli(*words, "--model", "org/tiny:1b", "--agent", "react", "--agent", "random")
    assert code == 0
    assert " of them sent (the others were equal to one under way, or in a cache), " in err
    assert "from the cache" not in err
    assert " tokens in, " in err
    assert (out.count("replayed: "), out.count("re-run: ")) == (1, 2)
    folders = {path.name.rpartition("-")[0]: path for path in (tmp_path / "runs" / "toys").iterdir()}
    assert folders.keys() == {"react-tiny-1b", "random", "oracle"}
    agent = read_run(folders["react-tiny-1b"]).agent
    assert (agent.options["endpoint"], agent.options["model"]) == (server.url, "org/tiny:1b")
    assert (folders["react-tiny-1b"] / "calls.jsonl").exists()
    assert not (folders["random"] / "calls.jsonl").exists()


def test_a_dead_endpoint_is_found_before_anything_is_played(refused, cli, suite, tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
    url = f"http://127.0.0.1:{address[1]}/v1"
    words = (
        "bench",
        suite,
        "--out",
        tmp_path / "runs",
        "--endpoint",
        url,
        "--model",
        "tiny",
        "--agent",
        "react",
    )
    pauses = []
    monkeypatch.setattr(ChatSender, "_pause", lambda *arguments: pauses.append(arguments) or 0.0)
    complaint = refused(*words)
    assert pauses == []  # nothing is sent again
    monkeypatch.undo()
    assert f"no server answers at {url} (Connection refused): start it, or mend host and port" in complaint
    assert not (tmp_path / "runs").exists()
    with serving(address=address):
        assert cli(*words, "--limit", 1)[0] == 0
    assert cli(*words, "--limit", 1)[0] == 0, "what is complete asks nobody"


def test_the_tutorial_leads_to_a_rank(cli, tmp_path, monkeypatch, server):
    monkeypatch.chdir(tmp_path)
    lines = commands("docs/tutorials/endpoint.md")
    assert len(lines) == 3
    for line in lines:
        words = shlex.split(line.replace("http://127.0.0.1:8000/v1", server.url))[1:]
        code, out, _ = cli(*words, *(["--limit", 2, "--env", "EZPoints"] if "bench" in words else []))
        assert code == 0
    assert "│ Rank" in out
    assert "No rank" not in out
    board = json.loads((tmp_path / "results" / "LEADERBOARD.json").read_text())["boards"][0]
    rows = {row["name"]: (row["rank"], row["badge"]) for row in board["rows"]}
    assert rows["react-Qwen3-8B"] == (1, "replayed")
    assert (rows["random"][1], rows["oracle"][1]) == ("re-run", "re-run")


def test_a_server_that_takes_no_connection_is_not_waited_for():
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, contextlib.ExitStack() as stack:
        for _ in range(4):  # nobody takes them, and there is no room for more
            waiting = stack.enter_context(contextlib.closing(socket.socket()))
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        spec = EndpointSpec(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", "m")
        with pytest.raises(EndpointError, match=r"no connection within 0.2 s|timed out"):
            check_reachable(spec, 0.2)


def test_a_server_that_is_slow_is_there(server):
    check_reachable(EndpointSpec(server.url, "m"))


def test_a_proxy_is_not_looked_behind(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "localhost")
    check_reachable(EndpointSpec("http://127.0.0.1:9/v1", "m"))
    with pytest.raises(EndpointError, match="no server answers at http://localhost:9/v1"):
        check_reachable(EndpointSpec("http://localhost:9/v1", "m"))


def test_environments_are_chosen_by_their_labels(cli, suite, tmp_path):
    second = SUITE[SUITE.index("[[env]]") : SUITE.index("[[agent]]")].replace('"Corridor"', '"Other way"')
    suite.write_text(SUITE.replace("[[agent]]", f"{second}\n[[agent]]", 1))
    words = ("bench", suite, "--out", tmp_path / "runs", "--agent", "random", "--env", "Other way")
    code, out, _ = cli(*words, "--limit", 2)
    assert code == 0
    assert "Other way (success %)" in out
    assert "Corridor (success %)" not in out
    name = "toys-Other-way-first2"
    for folder in (tmp_path / "runs" / name).iterdir():
        run = read_run(folder)
        assert (run.suite.name, [found.env.label for found in run.envs]) == (name, ["Other way"])
        assert cli("verify", folder)[0] == 0  # by the suite beside the results


def test_episodes_without_an_answer_are_told_of_and_played_again(cli, suite, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
    words = ("bench", suite, "--out", tmp_path / "runs", "--endpoint", f"http://127.0.0.1:{address[1]}/v1")
    words += ("--model", "tiny", "--no-probe", "--limit", 2, "--option", "request={attempts=1}")
    code, _, err = cli(*words)
    assert code == 0
    assert "4 of 4 episodes ended in an error (4 agent_error) and count 0: the same command plays them" in err
    assert "0 tokens in, 0 out\n" in err  # no price is known, and none is shown
    with serving(address=address):
        code, _, err = cli(*words)
    assert (code, "ended in an error" in err) == (0, False)


def test_tables_show_what_an_endpoint_was_asked(cli, suite, tmp_path, server):
    prices = tmp_path / "prices.toml"
    prices.write_text('[[price]]\nmodel = "tiny"\nsince = 2026-01-01\ninput = 2.0\noutput = 8.0\n')
    page = tmp_path / "LEADERBOARD.md"
    words = ("bench", suite, "--out", tmp_path / "runs", "--endpoint", server.url, "--model", "tiny")
    code, _, _ = cli(*words, "--no-probe", "--prices", prices, "--leaderboard", page)
    assert code == 0
    text = " ".join(page.read_text().split())
    head = "| Environment | Agent | Model | Answers | Tokens in | Tokens out | US$ | Seconds, median |"
    assert head in text
    assert "| Corridor | react-tiny | tiny |" in text
    assert "Stated by the submitter." in text
    table = json.loads(page.with_suffix(".json").read_text())
    (used,) = [
        row["envs"]["Corridor"]["endpoint"]
        for row in table["boards"][0]["rows"]
        if row["envs"]["Corridor"]["endpoint"]
    ]
    assert used["cost"] > 0
    assert 0 < used["median_seconds"] <= used["slow_seconds"]
    assert ",endpoint_prompt_tokens," in page.with_suffix(".csv").read_text()


def test_what_could_not_be_read_stands_beside_the_score_and_on_the_page_of_the_run(
    cli, suite, tmp_path, server, monkeypatch
):
    monkeypatch.setattr(server, "rambles", True)
    words = ("bench", suite, "--out", tmp_path / "runs", "--endpoint", server.url, "--model", "tiny")
    code, out, err = cli(*words, "--no-probe", "--verify")
    assert code == 0
    (line,) = [line for line in err.splitlines() if "unreadable" in line]
    assert ": Corridor: agent 100 % unreadable (" in line
    assert line.endswith(' answers), first: "I would <b>go [2J right</b>."')
    assert "], 100 % unreadable" in out
    code, *_ = cli("site", "build", tmp_path / "runs", "--out", tmp_path / "site")
    assert code == 0
    pages = [path.read_text() for path in (tmp_path / "site").glob("run-*.html")]
    (page,) = [page for page in pages if "unreadable" in page]
    assert "Corridor: agent 100 % unreadable (" in page
    assert "first: &#34;I would &lt;b&gt;go [2J right&lt;/b&gt;.&#34;</li>" in page


def test_an_estimate_asks_nobody_and_writes_nothing(cli, suite, tmp_path, server):
    prices = tmp_path / "prices.toml"
    prices.write_text('[[price]]\nmodel = "tiny"\nsince = 2026-01-01\ninput = 2.0\noutput = 8.0\n')
    before = len(server.bodies)
    words = ("bench", suite, "--out", tmp_path / "runs", "--endpoint", server.url, "--model", "tiny")
    code, out, _ = cli(*words, "--estimate", "--agent", "reflexion", "--agent", "prompting")
    assert code == 0
    assert len(server.bodies) == before
    assert not (tmp_path / "runs").exists()
    assert "reflexion-" in out
    assert "no price" in out
    assert "Nobody was asked." in out
    assert "and 12 short requests that probe each model first (--no-probe: none)." in out
    _, priced, _ = cli(*words, "--estimate", "--agent", "prompting", "--prices", prices, "--limit", 2)
    assert "no price" not in priced
    assert "probe" not in cli(*words, "--estimate", "--agent", "prompting", "--no-probe")[1]
    assert " 4 " in priced  # two tasks, two attempts


def test_a_limit_makes_a_suite_of_its_own(cli, suite, tmp_path):
    alone = ("--agent", "random", "--no-baselines")
    words = ("bench", suite, "--out", tmp_path / "runs", "--limit", 3, *alone)
    code, out, _ = cli(*words, "--leaderboard", tmp_path / "page.md")
    assert code == 0
    (folder,) = (tmp_path / "runs" / "toys-first3").iterdir()
    run = read_run(folder)
    assert (run.suite.name, run.envs[0].env.tasks) == ("toys-first3", 3)
    assert "6 episodes" in out
    code, out, _ = cli("verify", folder)  # by the suite beside the results
    assert (code, out.split(":")[0]) == (0, "re-run")
    assert cli("bench", suite, "--out", tmp_path / "runs", *alone)[0] == 0
    (whole,) = (tmp_path / "runs" / "toys").iterdir()
    assert read_run(whole).suite_sha256 != run.suite_sha256


def test_a_model_directory_without_an_agent_file(cli, suite, tmp_path):
    save_model(tmp_path / "plain", tiny_model("0.1m", word_tokenizer(["right"]), context=3000))
    words = ("bench", suite, "--out", tmp_path / "runs", "--model", tmp_path / "plain", "--agent", "plain")
    words += ("--no-baselines",)
    options = ("--wording", "terse", "--answer", "bare", "--option", "choice=constrained")
    code, out, _ = cli(*words, *options)
    assert code == 0
    assert out.startswith("replayed: ")
    (folder,) = (tmp_path / "runs" / "toys").iterdir()
    assert read_run(folder).agent.sampling["choice"] == "constrained"
    code, _, _ = cli(*words, "--out", tmp_path / "usual", "--option", "max_tokens=1", "--limit", 1)
    assert code == 0
    (folder,) = (tmp_path / "usual" / "toys-first1").iterdir()
    assert read_run(folder).agent.parser == "think-action"
    assert read_run(folder).agent.sampling["wording"] == "generic"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--endpoint", URL), "--endpoint needs --model NAME"),
        (("--key-env", "MY_KEY"), "--key-env is the key of an endpoint: name its URL with --endpoint"),
        (("--agent", "react"), "--agent react asks a model behind an endpoint: add --endpoint URL and"),
        (
            ("--endpoint", URL, "--model", "m", "--agent", "random"),
            "--endpoint plays nothing: name prompting or",
        ),
        (("--endpoint", URL, "--model", "m", "--agent", "reakt"), "with --agent too (did you mean 'react'?)"),
        (("--model", URL), "is a URL: give it to --endpoint"),
        (("--wording", "terse"), "--wording is of a model: name one with --model"),
        (("--option", "x=1"), "--option is of a model: name one with --model"),
        (("--engine", "hf"), "--engine is of a model: name one with --model"),
        (("--endpoint", URL, "--model", "m", "--engine", "hf"), "--engine samples from a model directory"),
        (("--model", "m", "--model", "n", "--engine", "vllm"), "vLLM fills a GPU with one model: name one"),
        (("--model", "m", "--option", "engine=vllm"), "has its own flag: use --engine"),
        (("--endpoint", URL, "--model", "m", "--option", "model=x"), "has its own flag: use --model"),
        (("--endpoint", URL, "--model", "m", "--option", "temprature=1"), "did you mean 'temperature'?"),
        (("--endpoint", "localhost", "--model", "m"), "url is no server's address"),
        (("--endpoint", "https://me:secret@host/v1", "--model", "m"), "url holds credentials"),
        (("--endpoint", URL, "--model", "m", "--key-env", "sk-123"), "and never the key itself"),
        (("--cache-mode", "read"), "--cache-mode read needs the cache: name its file with --cache"),
        (("--cache", "x", "--cache-mode", "off"), "--cache-mode off uses no cache: leave out --cache"),
        (("--cache-mode", "reed"), "invalid choice: 'reed'"),
        (("--budget-usd", "3"), "--budget-usd needs prices: name a file of prices with --prices"),
        (("--budget-requests", "-3"), "a budget is a whole number of at least 0"),
        (("--budget-usd", "nan", "--prices", "x"), "an amount is a number of at least 0"),
        (("--limit", "0"), "the limit of tasks must be at least 1, got 0"),
        (("--estimate",), "nothing in suite toys asks an endpoint: name one with --endpoint and --model"),
        (("--estimate", "--leaderboard", "x.md"), "--estimate plays nothing: leave out --leaderboard"),
        (
            ("--env", "corridor"),
            "unknown environment 'corridor' (did you mean 'Corridor'?); choose one of Corridor",
        ),
    ],
)
def test_bad_combinations_are_one_line_that_names_the_fix(refused, suite, tmp_path, words, complaint):
    assert complaint in refused("bench", suite, "--out", tmp_path / "runs", *words)
    assert not (tmp_path / "runs").exists()
