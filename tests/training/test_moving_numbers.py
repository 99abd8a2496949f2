"""What choices of a protocol change: the rows that need models, and what the benchmark asks for."""

from types import SimpleNamespace

import pytest

from agentgym.evaluation.suites.suite import load_suite
from agentgym.training.models.models import load_model
from benchmarks.alfworld_learning import untrained_in, words
from benchmarks.choices import __main__ as choices
from benchmarks.choices import learned


def episode(column, task, won, *, steps=2, invalid=0, f1=0.0):
    """What a row reads of an episode."""
    return SimpleNamespace(
        env=column,
        task_id=task,
        won=won,
        score=float(won),
        length=steps,
        invalid_count=invalid,
        measures={"f1": f1},
    )


@pytest.fixture
def commands(monkeypatch, tmp_path):
    """Commands of agentgym that were given; none is run."""
    given = []
    monkeypatch.setattr(choices, "run_agentgym", given.append)
    monkeypatch.setattr(learned, "run_agentgym", given.append)
    monkeypatch.setattr(learned, "clone", lambda config, folder, **_: given.append([config, folder]))
    monkeypatch.chdir(tmp_path)
    return given


def test_the_columns_of_a_choice_differ_in_that_choice_alone():
    columns = {env.label: env for env in load_suite(choices.SUITE).env}
    assert {name for choice in choices.CHOICES for name in (choice.first, choice.second)} <= columns.keys()
    for names, option in ((choices.DIALECTS, "dialect"), (choices.UNTAGGED, "untagged")):
        found = [dict(columns[name].kwargs) for name in names]
        assert len({kwargs.pop(option) for kwargs in found}) == len(names)
        assert all(kwargs == found[0] for kwargs in found)
        assert len({(columns[name].split, columns[name].tasks) for name in names}) == 1
    played = columns[choices.DIALECTS[0]].kwargs
    assert {name: played[name] for name in learned.EXPLORER.env_options} == learned.EXPLORER.env_options


def test_without_smollm2_nothing_is_played(commands, monkeypatch, tmp_path):
    monkeypatch.setattr("sys.argv", ["benchmarks.choices", "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit, match=r"^runs/models/smollm2 .*: make runs/models/smollm2/config\.json$"):
        choices.main()
    assert not commands


def test_every_clone_is_trained_once_and_plays_alone(commands, tmp_path):
    (tmp_path / "clone-seed0").mkdir()
    (tmp_path / "clone-seed0" / "config.json").touch()
    learned.play_models(tmp_path)
    trained = [command for command in commands if command[0] == "train"]
    assert [command[command.index("--seed") + 1] for command in trained] == list("1234")
    cloned = [(command[0].seed, command[1].name) for command in commands if not isinstance(command[0], str)]
    assert cloned == [(seed, f"alfworld-seed{seed}") for seed in range(5)]
    played = [command for command in commands if command[0] == "bench"]
    assert len(played) == 5 * (len(learned.TEMPERATURES) + 1) + 1
    assert all("--no-baselines" in command and "--agent" in command for command in played)
    assert "choice=free" in played[-1]
    assert played[-1].count("--env") == 3


def test_the_other_dialect_s_word_is_spelled(tmp_path):
    player = load_model(untrained_in(tmp_path / "model", 0, set(words()) - learned.OTHERS))
    assert len(player.chat.encode("put mug 1 in/on desk 1")) == 8
    assert len(player.chat.encode("move")) > 1


def test_rows_of_models(monkeypatch, tmp_path):
    old, new = choices.DIALECTS
    ends, answer, rejected = choices.UNTAGGED
    found = {}
    for seed, won in enumerate((True, False)):
        for temperature in choices.TEMPERATURES:
            at = tmp_path / f"at-{temperature}" / "part" / f"clone-seed{seed}-1a2b"
            found[at] = [episode(choices.PLAYED_AT, "a", won and temperature < 1)]
        at = tmp_path / "dialects" / "part" / f"alfworld-seed{seed}-1a2b"
        found[at] = [episode(old, "a", won=True, steps=4), episode(new, "a", won=won, steps=6 + 2 * seed)]
    found[tmp_path / "untagged" / "part" / "smollm2-1a2b"] = [
        *(episode(ends, task, won=False, steps=1, invalid=1) for task in "ab"),
        *(episode(answer, task, won=task == "a", steps=1, f1=0.5) for task in "ab"),
        *(episode(rejected, task, won=False, steps=4, invalid=3) for task in "ab"),
    ]
    for folder in found:
        folder.mkdir(parents=True)
        (folder / "run.json").touch()
    monkeypatch.setattr(choices, "read_episodes", found.__getitem__)
    rows = {row.name: (row.first, row.second, row.change, row.tasks) for row in choices.from_models(tmp_path)}
    assert rows["sokoban-temperature-0.4"] == (0.0, 0.5, 0.5, 2)
    assert rows["alfworld-dialect-clone"] == (1.0, 0.5, -0.5, 2)
    assert rows["alfworld-dialect-clone-steps"] == (4.0, 7.0, 3.0, 2)
    assert rows["smollm2-untagged-answer-success"] == (0.0, 0.5, 0.5, 2)
    assert rows["smollm2-untagged-answer-f1"] == (0.0, 0.5, 0.5, 2)
    assert rows["smollm2-untagged-answer-invalid"] == (1.0, 0.0, -1.0, 2)
    assert rows["smollm2-untagged-rejected-invalid"] == (1.0, 0.75, -0.25, 2)
