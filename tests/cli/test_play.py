"""Playing: by hand through a pipe, and watching agents."""

import json
import subprocess
import sys

import pytest

from agentgym.cli import terminal_session
from tests.cli.conftest import ENV
from tests.corridor import CorridorEnv


def hash_after(task, *actions):
    env = CorridorEnv()
    _, info = env.reset(seed=0, options={"task": task})
    for action in actions:
        *_, info = env.step(action)
    return info["state_hash"]


def titles(out):
    return [line for line in out.splitlines() if line.startswith(ENV)]


def test_a_person_plays_to_the_end(cli):
    code, out, err = cli("play", ENV, "--task", "corridor2", stdin="right\n1\n:quit\n")
    assert (code, err) == (0, "")
    assert "cell 0 of 2\n" in out
    assert "actions  1 right  2 fall\n" in out
    assert "actions  1 right  2 left  3 fall\n" in out
    for path in ((), ("right",), ("right", "right")):
        assert f"state {hash_after('corridor2', *path)}\n" in out
    assert "the episode is over: won, score 1\n" in out
    assert [title.split("turn ")[1].split(",")[0] for title in titles(out)] == [
        "0 of 12",
        "1 of 12",
        "2 of 12",
    ]


def test_undo_takes_back_actions_even_the_last(cli):
    _, once, _ = cli("play", ENV, "--task", "corridor2", stdin="right\nright\n")
    _, again, _ = cli("play", ENV, "--task", "corridor2", stdin="right\nfall\n:undo\nright\n")
    assert "the episode is over: not won, score 0\n" in again
    assert again.splitlines()[-5:] == once.splitlines()[-5:]  # the floor pays the same as if never left
    assert "won, score 1" in again.splitlines()[-1]


def test_undo_at_the_beginning(cli):
    code, out, _ = cli("play", ENV, "--task", "corridor2", stdin=":undo\n")
    assert code == 0
    assert out.splitlines()[-1] == "nothing to take back"


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("?", ":undo        take back the last action"),
        (":help", ":undo        take back the last action"),
        ("", "type an action, or ? for help"),
        (":hash", "\nstate "),
        (":all", "1 right\n2 fall\n"),
        (":task", "name a task: :task ID"),
        (":nope", "unknown command :nope; :help lists them"),
        (":task corridor99", "no task 'corridor99' in split 'train' (7 tasks)"),
        ("jump", "no action 'jump' here"),
        ("rigth", "no action 'rigth' here (did you mean 'right'?)"),
        ("9", "no action 9: they are numbered from 1 to 2"),
        (":force jump", "played jump  reward -0.5  rejected"),
        ("fall\nright", "the episode is over: :undo, :task ID or :quit"),
    ],
)
def test_lines_that_do_not_advance(cli, line, answer):
    code, out, err = cli("play", ENV, "--task", "corridor3", stdin=line + "\n")
    assert (code, err) == (0, "")
    assert answer in out


def test_what_could_mean_several_actions_is_not_played(cli):
    _, out, _ = cli("play", "agentgym/ALFWorld-v0", "--seed", 3, stdin="go to\nzzz\nLOOK\n")
    assert "'go to' could mean: go to " in out
    assert "no action 'zzz' here" in out
    assert [line for line in out.splitlines() if line.startswith("played")] == ["played look  reward 0"]


def test_free_text_is_played_where_the_environment_takes_it(cli):
    typed = "search\n1\nsearch[red shoe]\nsearch[blue]\nclick[no such thing]\n"
    _, out, _ = cli("play", "agentgym/WebShop-v0", "--seed", 3, stdin=typed)
    assert out.count("write your own text where it says <query>: search[<query>]") == 2
    played = [line.partition("  ")[0] for line in out.splitlines() if line.startswith("played")]
    assert played[0] == "played search[red shoe]"
    assert "no action 'click[no such thing]' here" in out


@pytest.mark.parametrize("env_id", ["agentgym/HotpotQA-v0", "agentgym/PaperSearch-v0"])
def test_a_typing_error_is_not_played_where_it_would_end_the_game(cli, env_id):
    code, out, err = cli("play", env_id, "--seed", 3, stdin="serch[a river]\nsearch[a river]\n:force serch\n")
    assert (code, err) == (0, "")
    assert "no action 'serch[a river]' here" in out
    played = [line for line in out.splitlines() if line.startswith("played")]
    assert played[0].startswith("played search[a river]  reward ")
    assert played[1:] == ["played serch  reward 0  rejected"]
    assert "the episode is over: not won" in out


def test_another_task(cli):
    _, out, _ = cli(
        "play", ENV, "--task", "corridor2", stdin="right\n:task corridor5\nright\n:task corridor2\n"
    )
    assert [line for line in out.splitlines() if line.startswith("cell")] == [
        "cell 0 of 2",
        "cell 1 of 2",
        "cell 0 of 5",
        "cell 1 of 5",
        "cell 0 of 2",
    ]


def test_the_seed_draws_the_task(cli):
    first, again, other = (titles(cli("play", ENV, "--seed", seed)[1]) for seed in (1, 1, 2))
    assert first == again != other


def test_options_split_and_limit(cli):
    code, out, _ = cli("play", ENV, "--split", "test", "--option", "max_steps=2", stdin="right\nleft\n")
    assert code == 0
    assert "cell 0 of 7" in out
    assert "turn 2 of 2" in titles(out)[-1]
    assert "the episode is over: not won" in out


def test_watching_the_oracle(cli):
    code, out, err = cli("play", ENV, "--task", "corridor3", "--agent", "oracle")
    assert (code, err) == (0, "")
    assert out.count("played right  reward ") == 3
    assert "success after 3 steps: score 1, progress 1, return " in out
    assert f"state {hash_after('corridor3', 'right', 'right', 'right')}\n" in out


def test_what_a_person_played_can_be_played_again(cli, tmp_path):
    record = tmp_path / "mine.jsonl"
    typed = "1\n:undo\nright\nleft\n:force jump\nr\n:task corridor2\nright\nright\n"
    cli("play", ENV, "--task", "corridor5", "--seed", 4, "--record", record, stdin=typed)
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert [line["actions"] for line in lines] == [["right", "left", "jump", "right"], ["right", "right"]]
    watched = ("--agent", "scripted", "--agent-option", f"path='{record}'", "--seed", 4)
    code, out, _ = cli("play", ENV, "--task", "corridor2", *watched)
    assert code == 0
    assert "success after 2 steps" in out
    code, out, _ = cli("play", ENV, "--task", "corridor5", *watched)
    assert code == 0
    assert "agent error after 4 steps: score 0" in out


def test_interrupted_play_is_recorded(cli, monkeypatch, tmp_path):
    record = tmp_path / "mine.jsonl"
    choose = terminal_session.choose

    def interrupted(line, actions, **judges):
        if line == "left":
            raise KeyboardInterrupt
        return choose(line, actions, **judges)

    monkeypatch.setattr(terminal_session, "choose", interrupted)
    code, _, err = cli("play", ENV, "--task", "corridor5", "--record", record, stdin="right\nleft\n")
    assert (code, err) == (130, "agentgym: interrupted\n")
    assert json.loads(record.read_text())["actions"] == ["right"]


def test_an_agents_play_can_be_recorded(cli, tmp_path):
    record = tmp_path / "oracle.jsonl"
    cli("play", ENV, "--task", "corridor3", "--agent", "oracle", "--record", record)
    assert json.loads(record.read_text())["actions"] == ["right"] * 3


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("toys/Coridor-v0",), "unknown id 'toys/Coridor-v0'"),
        (("agentgym/Sokobn-v0",), "did you mean 'agentgym/Sokoban-v0'?"),
        ((ENV, "--split", "tst"), "unknown split 'tst' (did you mean 'test'?)"),
        ((ENV, "--task", "corridor99"), "no task 'corridor99' in split 'train'"),
        ((ENV, "--dataset", "official"), "unknown dataset 'official'; choose builtin"),
        ((ENV, "--agent", "oracel"), "unknown agent 'oracel' (did you mean 'oracle'?)"),
        ((ENV, "--agent", "scripted"), "agent 'scripted' needs the option 'path'"),
        ((ENV, "--agent", "scripted", "--agent-option", "path=no.txt"), "cannot read the script no.txt"),
        ((ENV, "--agent-option", "path=x"), "agent 'human' has no option 'path'"),
        ((ENV, "--option", "slipp=1"), "unknown option 'slipp'"),
        ((ENV, "--option", "max_steps=0"), "max_steps must be at least 1"),
        ((ENV, "--option", "max_steps=many"), "max_steps must be at least 1 and whole, got 'many'"),
        ((ENV, "--option", "split=test"), "use --split"),
        ((ENV, "--seed", "-1"), "argument --seed: a seed is a whole number of at least 0, got '-1'"),
        ((ENV, "--delay", "-1"), "argument --delay: a duration is a number of at least 0, got '-1'"),
        ((ENV, "--delay", "nan"), "a duration is a number of at least 0, got 'nan'"),
        ((ENV, "--record", "x.txt"), "--record writes JSON lines: name a file that ends in .jsonl"),
        ((ENV, "--gif", "x.png"), "--gif writes GIF pictures: name a file that ends in .gif"),
        ((ENV, "--gif", "/nowhere/x.gif"), "--gif: there is no folder /nowhere"),
        ((ENV, "--record", "/nowhere/x.jsonl"), "there is no folder /nowhere"),
    ],
)
def test_bad_input(refused, words, complaint):
    assert complaint in refused("play", *words)


def test_a_record_is_never_overwritten(refused, tmp_path):
    record = tmp_path / "mine.jsonl"
    record.write_text("precious")
    assert "would overwrite" in refused("play", ENV, "--record", record)
    assert record.read_text() == "precious"


def test_actions_of_a_wrong_type_in_a_script(refused, tmp_path):
    script = tmp_path / "script.jsonl"
    script.write_text('{"actions": ["right", 3]}\n')
    words = ("play", ENV, "--agent", "scripted", "--agent-option", f"path='{script}'")
    assert "actions are strings, got 3: put it in quotes" in refused(*words)


def test_play_works_through_a_pipe():
    typed = ":task 1\n5\n=\n:undo\n:quit\n"
    program = subprocess.run(
        [sys.executable, "-m", "agentgym", "play", "agentgym/EZPoints-v0"],
        input=typed,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (program.returncode, program.stderr) == (0, "")
    assert "Formula:" in program.stdout
    assert "\x1b" not in program.stdout
