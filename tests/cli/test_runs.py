"""Running, verifying, ranking and viewing through the command line."""

import json
import shlex

import pytest

from agentgym.core.hashing import canonical_json
from agentgym.evaluation.log.runfiles import read_episodes, read_run
from agentgym.inference.models.tiny import tiny_model, word_tokenizer
from agentgym.inference.policy.saved import SavedAgent, Training
from agentgym.prompts.settings import Prompting
from agentgym.registration import suite_spec
from tests.cli.conftest import ENV, SUITE
from tests.saved_agents import save_agent


@pytest.fixture
def run_folder(cli, suite, tmp_path):
    """Return the folder of a finished run of the random agent."""
    alone = ("--no-baselines", "--no-verify")
    code, out, _ = cli("bench", suite, "--out", tmp_path / "runs", "--agent", "random", *alone)
    assert code == 0
    (folder,) = (tmp_path / "runs" / "toys").iterdir()
    assert out == f"{folder}\n"
    return folder


def test_bench_verifies_and_ranks(cli, suite, tmp_path):
    page = tmp_path / "LEADERBOARD.md"
    words = ("bench", suite, "--out", tmp_path / "runs", "--num-envs", 3, "--verify", "--leaderboard", page)
    code, out, _ = cli(*words)
    assert code == 0
    assert out.count("re-run: ") == 2
    assert "14 episodes" in out
    assert f"written to {page}, and {page.stem}.json, {page.stem}.csv, {page.stem}.tex beside it\n" in out
    assert "oracle" in page.read_text()
    table = [
        [cell.strip() for cell in line.strip("│┃").split("│")] for line in out.splitlines() if "│" in line
    ]
    rows = {name: cells for name, *cells in table}
    assert rows["Rank"] == ["1", "2"]
    assert rows["Badge"] == ["re-run", "re-run"]
    assert rows["Corridor (success %)"][0].startswith("100.0 [")
    again, _, _ = cli(*words)
    assert again == 0


def test_the_table_stands_at_the_end_and_the_scale_is_played(cli, suite, tmp_path):
    suite.write_text(f'{SUITE}\n[[agent]]\nname = "strings"\nkind = "random-strings"\n')
    words = ("bench", suite, "--out", tmp_path / "runs", "--agent", "strings")
    code, out, _ = cli(*words, "--no-baselines")
    assert code == 0
    assert "No rank: that takes a complete run each of floor and oracle, the agents random and oracle" in out
    code, out, _ = cli(*words)
    assert code == 0
    rows = {
        name: cells
        for name, *cells in ([c.strip() for c in row.strip("│┃").split("│")] for row in out.split("\n"))
    }
    assert rows["Rank"] == ["1", "2=", "2="]
    assert "No rank" not in out
    code, out, _ = cli(*words, "--no-verify")
    assert (code, "Rank" in out, len(out.splitlines())) == (0, False, 3)


def test_nobody_is_left_without_baselines(refused, suite, tmp_path):
    words = ("bench", suite, "--out", tmp_path / "runs", "--no-baselines")
    assert "--no-baselines leaves no agent of suite toys" in refused(*words)


def test_a_baseline_that_plays_nothing_is_left_out(cli, refused, suite, tmp_path):
    suite.write_text(SUITE.replace('kind = "oracle"', 'kind = "shopper"'))
    words = ("bench", suite, "--out", tmp_path / "runs")
    code, out, err = cli(*words, "--agent", "random")
    assert code == 0
    assert "left out: oracle: agent 'oracle' plays nothing of suite toys" in err
    assert "No rank" in out
    assert "plays nothing of suite toys" in refused(*words, "--agent", "oracle")


def test_an_interrupted_bench_says_how_it_goes_on(cli, suite, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("agentgym.evaluation.play.bench.run_request", interrupted)
    said = "agentgym: interrupted: what has ended is kept, and the same command plays the rest\n"
    assert cli("bench", suite) == (130, "", said)


def test_an_own_suite_stays_verifiable(cli, suite, tmp_path):
    results = tmp_path / "runs"
    assert cli("bench", suite, "--out", results, "--agent", "random")[0] == 0
    suite.unlink()
    for folder in (results / "toys").iterdir():
        code, out, _ = cli("verify", folder)
        assert (code, out.split(":")[0]) == (0, "re-run")
    code, out, _ = cli("leaderboard", "build", results)
    assert (code, "not ranked" in out) == (0, False)
    assert f"written to {results / 'LEADERBOARD.md'}, and LEADERBOARD.json, " in out
    kept = results / "suites" / "toys.toml"
    kept.write_text(f"# mine\n{SUITE}")
    assert cli("bench", kept, "--out", results, "--agent", "random")[0] == 0
    assert kept.read_text().startswith("# mine")


def test_a_wrong_run_is_not_verified(cli, suite, run_folder):
    path = run_folder / "episodes.jsonl"
    lines = path.read_text().splitlines()
    episode = json.loads(lines[0])
    episode["rewards"][0] += 0.25
    path.write_text("\n".join([canonical_json(episode), *lines[1:]]) + "\n")
    code, out, _ = cli("verify", run_folder, "--suite", suite)
    assert code == 1
    assert out.startswith("not verified: ")
    assert "its sha256 is not the one in run.json" in out


def test_verify(cli, suite, run_folder):
    code, out, _ = cli("verify", run_folder, "--suite", suite)
    assert (code, out.split(":")[0]) == (0, "re-run")
    code, out, _ = cli("verify", run_folder, "--suite", suite, "--rerun")
    assert (code, out.split(":")[0]) == (0, "re-run")


def test_leaderboard_build(cli, suite, run_folder, tmp_path):
    page = tmp_path / "page.md"
    code, out, _ = cli("leaderboard", "build", run_folder.parent, "--out", page, "--suite", suite)
    assert code == 0
    assert f"written to {page}, and {page.stem}.json, {page.stem}.csv, {page.stem}.tex beside it\n" in out
    assert "re-run" in out
    (tmp_path / "runs" / "suites" / "toys.toml").unlink()
    code, out, _ = cli("leaderboard", "build", run_folder.parent, "--out", page)
    assert code == 0
    assert f"not ranked: random ({read_run(run_folder).request_id[:12]}): claimed: no suites/toys.toml" in out
    page.unlink()
    code, out, err = cli("leaderboard", "build", run_folder.parent, "--out", page, "--strict")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "nothing is written: run random of suite toys: claimed: no suites/toys.toml" in err
    assert not page.exists()


def test_a_packed_run_is_verified_viewed_and_ranked(cli, suite, run_folder, tmp_path):
    code, out, _ = cli("leaderboard", "pack", run_folder, "--out", tmp_path / "packed")
    assert code == 0
    (path,) = (tmp_path / "packed" / "toys").iterdir()
    assert out == f"{path} ({path.stat().st_size:,} bytes)\n"
    code, out, _ = cli("verify", path, "--suite", suite)
    assert (code, out.split(":")[0]) == (0, "re-run")
    code, out, _ = cli(
        "leaderboard", "build", tmp_path / "packed", "--out", tmp_path / "p.md", "--suite", suite
    )
    assert code == 0
    (path.parents[2] / "suites").mkdir()
    (path.parents[2] / "suites" / "toys.toml").write_text(suite.read_text())
    assert cli("verify", path)[0] == 0
    code, out, _ = cli("view", path, "--episode", "1")
    assert code == 0
    assert "score" in out


def test_view_replays_an_episode(cli, run_folder):
    episode = max(read_episodes(run_folder), key=lambda e: e.length)
    code, out, err = cli("view", run_folder, "--episode", episode.id)
    assert (code, err) == (0, "")
    for action, reward in zip(episode.actions, episode.rewards, strict=True):
        assert f"played {action}  reward {reward:g}" in out
    assert out.count("state ") == episode.length + 1
    assert f"after {episode.length} steps: score {episode.score:g}" in out


def test_view_lists_the_episodes(cli, suite, run_folder, tmp_path):
    code, out, err = cli("view", run_folder)
    assert (code, err) == (0, "")
    head, *rows, last = out.splitlines()
    assert head.split() == ["no.", "episode", "ended", "steps", "score"]
    numbered = list(enumerate((episode.id for episode in read_episodes(run_folder)), 1))
    assert [(int(row.split()[0]), row.split()[1]) for row in rows] == numbered
    assert last == f"14 of 14 episodes; one is shown by: agentgym view {run_folder} --episode 1"
    assert cli(*shlex.split(last.partition("agentgym ")[2]))[0] == 0
    words = ("bench", suite, "--out", tmp_path / "more", "--agent", "random", "--no-baselines", "--no-verify")
    suite.write_text(SUITE.replace("attempts = 2", "attempts = 9"))
    cli(*words)
    (folder,) = (tmp_path / "more" / "toys").iterdir()
    out = cli("view", folder)[1]
    assert (len(out.splitlines()), "30 of 63 episodes" in out) == (32, True)


def test_view_shows_one_step(cli, run_folder):
    episode = max(read_episodes(run_folder), key=lambda e: e.length)
    _, out, _ = cli("view", run_folder, "--episode", episode.id, "--step", 1)
    assert f"turn 1 of {episode.length}" in out
    assert out.count("state ") == 1


def test_a_person_views_at_leisure(cli, run_folder, monkeypatch):
    monkeypatch.setattr("agentgym.cli.view.is_interactive", lambda: True)
    episode = max(read_episodes(run_folder), key=lambda e: e.length)
    for typed, states in (("\nq\n", 2), ("", 1), ("\n" * episode.length, episode.length + 1)):
        code, out, _ = cli("view", run_folder, "--episode", episode.id, stdin=typed)
        assert code == 0
        assert out.count("state ") == states


def test_view_says_where_a_replay_differs(cli, run_folder):
    path = run_folder / "episodes.jsonl"
    episode = json.loads(path.read_text().splitlines()[0])
    episode["hash_chain"][1] = "0" * 32
    path.write_text(canonical_json(episode) + "\n")
    code, out, _ = cli("view", run_folder, "--episode", "Corridor/")
    assert code == 1
    assert out.splitlines()[-1] == "the replay differs from the record at step 1"


def test_bad_input(refused, suite, run_folder, tmp_path):
    assert "there is no suite file " in refused("bench", tmp_path / "none.toml")
    assert "did you mean 'oracle'?" in refused("bench", suite, "--agent", "oracel")
    assert "num_envs must be at least 1" in refused("bench", suite, "--num-envs", 0)
    assert "none" in refused("verify", tmp_path / "none")
    assert "no episode 'zzz'" in refused("view", run_folder, "--episode", "zzz")
    assert "14 episodes match 'Corridor'" in refused("view", run_folder, "--episode", "Corridor")
    one = read_episodes(run_folder)[0]
    assert "choose one, not 99" in refused("view", run_folder, "--episode", one.id, "--step", 99)
    assert "a duration is a number" in refused("view", run_folder, "--episode", one.id, "--delay", -1)
    empty = tmp_path / "empty"
    empty.mkdir()
    refused("leaderboard", "build", empty, "--out", tmp_path / "page.md")
    assert not (tmp_path / "page.md").exists()


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (ENV, "agentgym/Sokobn-v0", "did you mean 'agentgym/Sokoban-v0'?"),
        ('split = "train"', 'split = "trian"', "unknown split 'trian' (did you mean 'train'?)"),
        ('kind = "oracle"', 'kind = "oracel"', "unknown agent 'oracel'"),
        ("tasks = 7", "tusks = 7", "tusks"),
        ("attempts = 2", 'attempts = "2"', "attempts"),
        ("tasks = 7", "tasks = 8", "has 7 tasks"),
    ],
)
def test_bad_suites_leave_nothing_behind(refused, suite, tmp_path, old, new, complaint):
    suite.write_text(SUITE.replace(old, new))
    assert complaint in refused("bench", suite, "--out", tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_bench_takes_saved_models(cli, refused, suite, tmp_path):
    prompting = Prompting.tiny(suite_spec(ENV).prompt)
    training = Training(
        env_id=ENV,
        algorithm="grpo",
        base_model="tiny",
        seed=2,
        run="corridor",
        iterations=1,
        episodes=8,
        tokens=40,
    )
    model = tiny_model("0.1m", word_tokenizer(["right"]), context=3000)
    save_agent(tmp_path / "model", model, SavedAgent(prompting, training))
    words = ("bench", suite, "--out", tmp_path / "runs", "--model", tmp_path / "model")
    mine = ("--model", f"{tmp_path / 'model'}:mine", "--agent", "mine", "--no-baselines")
    code, out, _ = cli(*words, *mine)
    assert code == 0
    assert out.startswith("replayed: ")
    (folder,) = (tmp_path / "runs" / "toys").iterdir()
    assert folder.name.startswith("mine-seed2-")
    assert read_run(folder).agent.model.training_tokens == 40
    assert cli(*words)[0] == 0
    assert len(list((tmp_path / "runs" / "toys").glob("corridor-seed2-*"))) == 1
    assert "does not exist: give the path of a saved model" in refused("bench", suite, "--model", "nowhere")
