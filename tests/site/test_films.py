"""Films: episodes played again as data, what differs marked, and texts stored once and without secrets."""

import json
import shutil
from dataclasses import replace
from html import escape

import pytest

from agentgym.core.episodes import taken_step
from agentgym.core.types import Completion, Trajectory
from agentgym.credit.regret import regret_of_run
from agentgym.evaluation.log.frames import EpisodeFrame, ReplayedFrames
from agentgym.evaluation.log.runfiles import read_episodes
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.suites.suite import SuiteAgent
from agentgym.evaluation.verify.archives import open_run
from agentgym.evaluation.verify.packed import pack_run
from agentgym.history.rollouts import write_rollouts
from agentgym.history.run import CONFIG_FILE, METRICS_FILE
from agentgym.registration import open_env
from agentgym.rollout.stored_episode import KeptEpisode, StepCredit
from agentgym.site.build import build_site
from agentgym.site.filmdata import ViewerTables
from agentgym.site.training_viewer_data import keeps_rollouts, write_training
from agentgym.site.viewer_data import (
    DATA,
    PACK_SIZE,
    EpisodeView,
    RunViewerData,
    ViewerPacks,
    write_index,
    write_run,
)
from tests.evaluation.model_runs import FREE, save
from tests.iterations import make_metrics
from tests.site.films import film_of, text_of, value_of

SAID = """\
name = "said"
version = "1"
seed = 7
floor = ""
oracle = ""

[[env]]
id = "agentgym/EZPoints-v0"
label = "EZPoints"
split = "test"
tasks = 2
"""


@pytest.fixture(scope="module")
def run(made_site):
    (folder,) = (made_site.results / "pages").glob("random-*")
    return folder


def test_every_state_of_every_episode_is_there(run, tmp_path):
    films = write_run(tmp_path, open_run(run))
    write_index(tmp_path, [films])
    episodes = read_episodes(run)
    assert len(films.episodes) == len(episodes) == 12
    listed = value_of(tmp_path / DATA / films.key / "episodes.js")
    assert [row[0] for row in listed["episodes"]] == [summary.number for summary in films.episodes]
    assert value_of(tmp_path / DATA / "runs.js") == [films.as_json]
    for summary in films.episodes:
        said = episodes[summary.number - 1]
        film = film_of(tmp_path / DATA / films.key, summary.number)
        assert summary.differs_at is None
        assert len(film["states"]) == said.length + 1 == len(film["steps"]) + 1
        assert [text_of(film, step["action"]) for step in film["steps"]] == list(said.actions)
        assert [step["reward"] for step in film["steps"]] == list(said.rewards)
        assert all(len(state["hash"]) == 32 for state in film["states"])
        assert len(film["texts"]) == len({json.dumps(text) for text in film["texts"]})
        assert len(film["nodes"]) == len({json.dumps(node) for node in film["nodes"]})


def test_only_the_first_of_each_environment_where_asked(run, tmp_path):
    films = write_run(tmp_path, open_run(run), most=2)
    shown = [episode for episode in films.episodes if episode.pack]
    assert len(films.episodes) == 12
    assert sorted(episode.label for episode in shown) == ["EZPoints"] * 2 + ["Sokoban, easy"] * 2
    assert len(value_of(tmp_path / DATA / films.key / "1.js")["films"]) == 4


def test_a_changed_action_is_marked_with_its_step(run, tmp_path):
    copy = tmp_path / run.name
    shutil.copytree(run, copy)
    episodes = read_episodes(copy)
    number = next(n for n, episode in enumerate(episodes) if episode.env == "Sokoban, easy")
    changed = list(episodes[number].actions)
    changed[4] = "nothing like it"
    table = json.loads(episodes[number].line)
    table["actions"] = changed
    lines = [episode.line for episode in episodes]
    lines[number] = json.dumps(table, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    (copy / "episodes.jsonl").write_text("".join(f"{line}\n" for line in lines))
    films = write_run(tmp_path / "site", open_run(copy))
    assert [e.differs_at for e in films.episodes].count(None) == 11
    assert films.episodes[number].differs_at == 5
    film = film_of(tmp_path / "site" / DATA / films.key, number + 1)
    assert len(film["states"]) == 5
    assert text_of(film, film["steps"][4]["action"]) == "nothing like it"
    assert "another state" in film["steps"][4]["differs"]


def test_regret_is_that_of_the_run(run, tmp_path):
    films = write_run(tmp_path / "with", open_run(run), regret=True)
    write_run(tmp_path / "without", open_run(run))
    stored = open_run(run)
    found = {episode.id: regret for episode, regret in regret_of_run(stored, stored.results)}
    decisive = []
    for summary, episode in zip(films.episodes, read_episodes(run), strict=True):
        film = film_of(tmp_path / "with" / DATA / films.key, summary.number)
        regret = found[episode.id]
        assert [state.pop("left") for state in film["states"]] == [each.as_json for each in regret.left]
        assert [step.pop("regret") for step in film["steps"]] == [each.as_json for each in regret.known]
        assert [step.pop("belief") for step in film["steps"]] == [each.as_json for each in regret.belief]
        decisive.append(film.pop("decisive", None))
        assert decisive[-1] == regret.decisive
        assert film == film_of(tmp_path / "without" / DATA / films.key, summary.number)
    assert len(set(decisive)) > 3


def test_a_suite_without_a_distance_is_shown_without_regret(tmp_path):
    game = open_env("agentgym/WebShop-v0")
    observation, info = game.reset(seed=0)
    view = EpisodeView(ViewerTables(str), game)
    first = EpisodeFrame(None, observation, info["admissible_actions"], info["state_hash"], "", 0.0, False)
    view.play(ReplayedFrames([first], [info["state_hash"]], chained=False), (), regret=True)
    assert view.states
    assert "left" not in view.states[0]


def test_secrets_are_in_no_file(run, tmp_path, monkeypatch):
    monkeypatch.setenv("PLANTED_TOKEN", "Make 12 from both cards")
    films = write_run(tmp_path, open_run(run))
    texts = [json.dumps(value_of(path)) for path in (tmp_path / DATA / films.key).iterdir()]
    assert not any("Make 12 from both cards" in text for text in texts)
    assert any("[redacted: $PLANTED_TOKEN]" in text for text in texts)


# ---- training --------------------------------------------------------------------------------------


def kept(game, actions, *, begin=0, final_hash=None):
    """Return a rollout of EZPoints as a training run keeps it, from its ``begin``-th step on."""
    seen, info = game.reset(seed=5, options={"task": game.tasks[0].id})
    steps = []
    for number, action in enumerate(actions):
        completion = Completion(action, text=f"I play {action}", response_ids=(1, 2, 3), version=2)
        outcome = game.step(action)
        step = taken_step(seen, info, completion, outcome)
        steps.append(replace(step, observation="", admissible_actions=(f"action {number - begin}",)))
        seen, *_, info = outcome
    steps[-1] = replace(steps[-1], next_state_hash=final_hash or info["state_hash"])
    trajectory = Trajectory(
        env_id="agentgym/EZPoints-v0",
        task_id=info["task_id"],
        task_type=info["task_type"],
        seed=5,
        rollout=0,
        initial_hash=steps[begin].state_hash,
        steps=tuple(steps[begin:]),
        final_observation="",
        won=info["won"],
        score=info["score"],
        progress=info["progress"],
        end_reason="failure",
    )
    credit = (StepCredit(0.5, value=0.25),) * len(trajectory.steps)
    return KeptEpisode("0", 4, (), True, trajectory, iteration=1, version=2, credit=credit)


def test_kept_rollouts_are_played_again_from_where_they_begin(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    config = {"algorithm": "grpo", "env_id": "agentgym/EZPoints-v0", "env_options": {}, "split": "train"}
    (folder / CONFIG_FILE).write_text(json.dumps({**config, "model": "tiny:0.1m", "seed": 0}))
    (folder / METRICS_FILE).write_text(json.dumps(make_metrics(1).to_json()) + "\n")
    assert not keeps_rollouts(folder)
    game = open_env("agentgym/EZPoints-v0", split="train")
    first = kept(game, ("+", "+", "="))
    late = kept(game, ("+", "+", "="), begin=1)
    lost = kept(game, ("+", "="), final_hash="0" * 32)
    away = kept(game, ("*", "+", "="), begin=2)
    write_rollouts(folder, 1, [late, first, lost, away])
    assert keeps_rollouts(folder)
    films = write_training(tmp_path, folder, regret=True)
    assert (films.kind, films.title) == ("training", "GRPO on EZPoints-v0, seed 0")
    assert [episode.differs_at for episode in films.episodes] == [None, None, 2, 0]
    played, whole, cut, told = (film_of(tmp_path / DATA / films.key, n) for n in (1, 2, 3, 4))
    assert "Formula: +" in text_of(played, played["states"][0]["observation"])
    assert [step["value"] for step in whole["steps"]] == [0.25] * 3
    assert text_of(whole, whole["steps"][0]["response"]) == "I play +"
    assert [state["left"] for state in whole["states"]] == [[4, 4]] * 3 + [[None, None]]
    assert [step["regret"] for step in whole["steps"]] == [[1, 1], [1, 1], [None, None]]
    assert not any("left" in state for state in (*played["states"], *told["states"]))
    assert len(cut["states"]) == 2
    assert "observation" not in told["states"][0]
    assert "no reset" in text_of(told, told["why"])


def test_pages_of_a_packed_run_show_what_its_model_said(tmp_path):
    save(tmp_path / "model", FREE)
    suite = tmp_path / "suites" / "said.toml"
    suite.parent.mkdir()
    suite.write_text(SAID)
    agent = SuiteAgent("tiny", "model", options={"path": str(tmp_path / "model")})
    (folder,) = run_bench(suite, tmp_path / "results", agents=["tiny"], further=[agent])
    pack_run(open_run(folder), tmp_path / "runs")
    built = build_site(tmp_path / "runs", tmp_path / "site")
    assert built.differing == ()
    record = next(iter(open_run(folder).transcripts().values()))
    prompt, response = record.messages(0)[-1].text, record.steps[0].response
    assert prompt
    assert response
    (page,) = (tmp_path / "site").glob("run-*.html")
    assert "The first prompt of its transcripts" in page.read_text()
    assert escape(prompt.split("\n")[0]) in page.read_text()
    (episodes,) = (tmp_path / "site" / DATA).glob("*/episodes.js")
    film = film_of(episodes.parent, 1)
    assert text_of(film, film["steps"][0]["response"]) == response
    assert text_of(film, film["steps"][0]["prompt"][-1][1]) == prompt


def test_episodes_share_files_texts_and_drawings(run, tmp_path, monkeypatch):
    films = write_run(tmp_path / "one", open_run(run))
    assert [path.name for path in sorted((tmp_path / "one" / DATA / films.key).iterdir())] == [
        "1.js",
        "episodes.js",
    ]
    pack = value_of(tmp_path / "one" / DATA / films.key / "1.js")
    assert sorted(map(int, pack["films"])) == [episode.number for episode in films.episodes]
    images = [node[1]["src"] for node in pack["nodes"] if node[0] == "img"]
    assert len(images) == len(set(images)) < sum(episode.length + 1 for episode in films.episodes)
    monkeypatch.setattr("agentgym.site.viewer_data.PACK_SIZE", 10_000)
    small = write_run(tmp_path / "many", open_run(run))
    assert 2 < len({episode.pack for episode in small.episodes}) <= 12
    for episode in small.episodes:
        film, same = (film_of(tmp_path / name / DATA / films.key, episode.number) for name in ("one", "many"))
        assert [text_of(film, s["observation"]) for s in film["states"]] == [
            text_of(same, s["observation"]) for s in same["states"]
        ]
        tasks = {each.pack for each in small.episodes if each.task_id == episode.task_id}
        assert len(tasks) <= 2  # attempts at a task stand side by side


def test_a_pack_is_full_before_it_is_large(tmp_path):
    packs = ViewerPacks(tmp_path, "0123456789ab")
    for number in range(1, 41):
        packs.tables.text(f"{number} " * 20_000)
        packs.add(number, {"states": {"count": 1}, "steps": {"count": 0}})
    packs.close(RunViewerData("0123456789ab", "", "", "run", ()))
    held = [value_of(path)["films"] for path in (tmp_path / DATA).rglob("[0-9]*.js")]
    assert sum(map(len, held)) == 40
    assert max(map(len, held)) <= PACK_SIZE // 40_000 + 1
