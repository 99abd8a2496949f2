"""What a submitter can write never gets a forged run ranked."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import agentgym.evaluation.suites as suites
from agentgym.cli import main
from agentgym.core.hashing import sha256_json
from agentgym.evaluation.board.boards import Board, make_boards
from agentgym.evaluation.board.leaderboard import build_leaderboard
from agentgym.evaluation.log.results import (
    EPISODES_FILE,
    VERIFY_FILE,
    EvalLog,
    EvalSample,
    Excluded,
    chained,
    closed,
    episode_lines,
    latest,
)
from agentgym.evaluation.log.runfiles import read_episodes, read_run, write_run
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.suites.suite import SuiteAgent, load_suite
from agentgym.evaluation.verify.archives import open_run
from agentgym.evaluation.verify.packed import pack_run
from agentgym.evaluation.verify.submissions import verify_below
from agentgym.evaluation.verify.verification import verify_run
from tests.evaluation.making import board_below, write_complete
from tests.suite_texts import ORACLE, RANDOM, RULES, env_table, suite_text

MINI = suite_text(
    "mini",
    env_table("agentgym/EZPoints-v0", 8),
    env_table(
        "agentgym/Sokoban-v0", 6, measures=["spl", "won_15"], kwargs={"max_optimal": 6, "max_steps": 15}
    ),
    agents=(RANDOM, ORACLE, RULES),
    seed=11,
    attempts=2,
)

PLAYER = SuiteAgent("player", "scripted", {"path": "moves.jsonl"})
"""Stands for a model: nothing makes it play again."""


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a suite that ships, and honest runs of it."""
    folder = tmp_path_factory.mktemp("honest")
    (folder / "shipped").mkdir()
    (folder / "shipped" / "mini.toml").write_text(MINI)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suites, "NAMES", ("mini",))
        run_bench(folder / "shipped" / "mini.toml", folder / "results")
    submit(folder / "results", PLAYER, mixed(folder / "results"))
    return folder


@pytest.fixture
def results(honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unboxed: None) -> Path:
    """Return a private copy of the honest runs."""
    monkeypatch.setattr(suites, "NAMES", ("mini",))
    monkeypatch.setattr(suites, "FOLDER", honest / "shipped")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    shutil.copytree(honest / "results", tmp_path / "results")
    return tmp_path / "results"


def folder_of(results: Path, name: str) -> Path:
    (folder,) = (path for path in results.glob(f"mini/{name}-*") if path.is_dir())
    return folder


def mixed(results: Path) -> list[EvalSample]:
    """Take every other episode from the oracle, else from the random agent."""
    oracle = {e.key: e for e in read_episodes(folder_of(results, "oracle"))}
    random = {e.key: e for e in read_episodes(folder_of(results, "random"))}
    return [(oracle if i % 2 else random)[key] for i, key in enumerate(sorted(oracle))]


def submit(results: Path, agent: SuiteAgent, episodes: list[EvalSample], **changes: object) -> Path:
    """Write a run, consistent in itself, of an agent that has never played."""
    run = replace(read_run(folder_of(results, "oracle")), agent=agent, **changes)  # type: ignore[arg-type]
    run = replace(run, request_id=sha256_json(run.request))
    folder = results / "mini" / f"{run.folder_name}-submitted"
    folder.mkdir()
    write_complete(folder, run, episodes)
    return folder


def ranks(board: Board) -> dict[str, tuple[int | None, str, float]]:
    return {row.name: (row.rank, row.role, row.aggregate.mean.value) for row in board.rows if row.aggregate}


def as_won(episode: EvalSample) -> EvalSample:
    return replace(episode, won=True, score=1.0, progress=1.0, end_reason="success")


def as_lost_by_error(episode: EvalSample) -> EvalSample:
    if episode.won:
        return episode
    nothing = replace(episode, actions=(), rewards=(), hash_chain=episode.hash_chain[:1], episode_return=0.0)
    return replace(nothing, score=0.0, progress=0.0, length=0, invalid_count=0, end_reason="agent_error")


def test_honest_runs_are_ranked(results: Path) -> None:
    board = board_below(results)
    assert [(row.name, row.role, row.badge) for row in board.rows] == [
        ("oracle", "oracle", "re-run"),
        ("rules", "agent", "re-run"),
        ("player", "agent", "replayed"),
        ("random", "floor", "re-run"),
    ]
    assert all(row.rank for row in board.rows)
    assert board_below(results) == board, "from the cache the same"


def scores(results: Path) -> str:
    """Scores raised, with every digest and a verdict that says so."""
    episodes = [as_won(e) for e in read_episodes(folder_of(results, "player"))]
    folder = submit(results, replace(PLAYER, name="liar"), episodes)
    verify_run(folder_of(results, "rules"))
    verdict = json.loads((folder_of(results, "rules") / VERIFY_FILE).read_text())
    (folder / VERIFY_FILE).write_text(json.dumps({**verdict, "ok": True, "badge": "re-run"}))
    return "liar"


def scores_with_a_true_verdict_copied(results: Path) -> str:
    """Scores raised under digests of files that were verified."""
    folder = folder_of(results, "player")
    verify_run(folder)
    episodes = chained(read_run(folder).request_id, [as_won(e) for e in read_episodes(folder)])
    (folder / EPISODES_FILE).write_bytes(episode_lines(episodes))
    return "player"


def a_measure_raised(results: Path) -> str:
    """Better ways than were gone."""
    episodes = read_episodes(folder_of(results, "player"))
    raised = [replace(e, measures=dict.fromkeys(e.measures or {}, 1.0)) for e in episodes]
    submit(results, replace(PLAYER, name="liar"), raised)
    return "liar"


def a_measure_made_up(results: Path) -> str:
    """A measure that the environment does not have."""
    episodes = read_episodes(folder_of(results, "player"))
    more = [replace(e, measures={**(e.measures or {}), "charm": 1.0}) for e in episodes]
    submit(results, replace(PLAYER, name="liar"), more)
    return "liar"


def a_measure_left_out_where_it_is_low(results: Path) -> str:
    """Measures of won episodes only."""
    episodes = read_episodes(folder_of(results, "player"))
    kept = [replace(e, measures=e.measures if e.won else {}) for e in episodes]
    submit(results, replace(PLAYER, name="liar"), kept)
    return "liar"


def floor_by_name(results: Path) -> str:
    """The floor's name, a training seed, and the oracle's actions."""
    agent = replace(SuiteAgent("random", "random"), model=replace(PLAYER.model, training_seed=3))
    submit(results, agent, read_episodes(folder_of(results, "oracle")))
    return "random-seed3"


def floor_removed_by_a_twin(results: Path) -> str:
    """The floor's name with another identity, so that names collide."""
    submit(
        results, SuiteAgent("random", "scripted", {"path": "x"}), read_episodes(folder_of(results, "random"))
    )
    return "random"


def floor_raised(results: Path) -> str:
    """The floor's whole identity, with the oracle's actions."""
    shutil.rmtree(folder_of(results, "random"))
    submit(results, SuiteAgent("random", "random"), read_episodes(folder_of(results, "oracle")))
    return "random"


def floor_renamed(results: Path) -> str:
    """The floor under a name of one's own."""
    episodes = read_episodes(folder_of(results, "random"))
    shutil.rmtree(folder_of(results, "random"))
    submit(results, SuiteAgent("chance", "random"), episodes)
    return "chance"


def oracle_lowered(results: Path) -> str:
    """The oracle's whole identity, with the random agent's actions."""
    random = read_episodes(folder_of(results, "random"))
    submit(results, SuiteAgent("oracle", "oracle"), random)
    shutil.rmtree(next(path for path in results.glob("mini/oracle-*") if "submitted" not in path.name))
    return "oracle"


def rules_replaced(results: Path) -> str:
    """A baseline's whole identity, with another agent's actions."""
    agent = read_run(folder_of(results, "rules")).agent
    shutil.rmtree(folder_of(results, "rules"))
    submit(results, agent, mixed(results))
    return "rules"


def easier_suite(results: Path) -> str:
    """A suite of the shipped one's name and version, in a folder above the run."""
    (results / "suites").mkdir()
    path = results / "suites" / "mini.toml"
    path.write_text(MINI.replace("max_steps = 15", "max_steps = 60"))
    (folder,) = run_bench(path, results.parent / "elsewhere", agents=["rules"])
    shutil.rmtree(folder_of(results, "rules"))
    shutil.copytree(folder, results / "mini" / folder.name)
    return "rules"


def left_out_though_here(results: Path) -> str:
    """An environment dropped, its data said to be missing."""
    run = read_run(folder_of(results, "player"))
    episodes = [e for e in read_episodes(folder_of(results, "player")) if e.env == "EZPoints"]
    gap = Excluded("Sokoban", "no data")
    submit(results, replace(PLAYER, name="picky"), episodes, envs=run.envs[:1], left_out=(gap,))
    return "picky"


def left_out_though_played(results: Path) -> str:
    """An environment said not to be played by an agent that plays it."""
    episodes = [e for e in read_episodes(folder_of(results, "rules")) if e.env == "EZPoints"]
    gap = Excluded("Sokoban", "has no rules")
    agent = read_run(folder_of(results, "rules")).agent
    shutil.rmtree(folder_of(results, "rules"))
    submit(results, agent, episodes, left_out=(gap,))
    return "rules"


def retry_removed(results: Path) -> str:
    """An earlier attempt taken out of a file."""
    folder = folder_of(results, "player")
    run, episodes = read_run(folder), read_episodes(folder)
    lines = chained(run.request_id, [as_lost_by_error(episodes[0]), *episodes])
    assert lines[0].end_reason == "agent_error"
    (folder / EPISODES_FILE).write_bytes(episode_lines(lines[1:]))
    write_run(folder, closed(run, lines[1:], None))
    return "player"


def retry_renumbered(results: Path) -> str:
    """An attempt whose number says that there was another before."""
    folder = folder_of(results, "player")
    run, episodes = read_run(folder), read_episodes(folder)
    lines, previous = [], run.request_id
    for episode in episodes:
        lines.append(replace(episode, attempt=2 if not lines else 1, previous=previous))
        previous = lines[-1].line_sha256
    (folder / EPISODES_FILE).write_bytes(episode_lines(lines))
    write_run(folder, closed(run, lines, None))
    return "player"


def played_until_it_won(results: Path) -> str:
    """Lost episodes played again, with the lines of both attempts."""
    folder = folder_of(results, "player")
    won = {e.key: e for e in read_episodes(folder_of(results, "oracle"))}
    lost = [e for e in read_episodes(folder) if not e.won]
    write_complete(folder, read_run(folder), [*read_episodes(folder), *(won[e.key] for e in lost)])
    return "player"


def losses_called_errors(results: Path) -> str:
    """Lost episodes replaced by errors without a step; the chain as it was."""
    folder = folder_of(results, "player")
    lines = [as_lost_by_error(e) for e in read_episodes(folder)]
    (folder / EPISODES_FILE).write_bytes(episode_lines(lines))
    write_run(folder, closed(read_run(folder), lines, None))
    return "player"


def a_lucky_seed(results: Path) -> str:
    """Another training seed's weights under the same seed: the second run of an agent."""
    agent = replace(PLAYER, model=replace(PLAYER.model, training_seed=0, weights_sha256="a" * 64))
    submit(results, agent, mixed(results))
    again = replace(agent, model=replace(agent.model, weights_sha256="b" * 64))
    submit(results, again, read_episodes(folder_of(results, "oracle")))
    return ""


FORGERIES: tuple[Callable[[Path], str], ...] = (
    scores,
    scores_with_a_true_verdict_copied,
    a_measure_raised,
    a_measure_made_up,
    a_measure_left_out_where_it_is_low,
    floor_by_name,
    floor_removed_by_a_twin,
    floor_raised,
    floor_renamed,
    oracle_lowered,
    rules_replaced,
    easier_suite,
    left_out_though_here,
    left_out_though_played,
    retry_removed,
    retry_renumbered,
    played_until_it_won,
    losses_called_errors,
)


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_a_forgery_is_refused(results: Path, forge: Callable[[Path], str], capsys) -> None:
    before = ranks(board_below(results))
    name = forge(results)
    boards, others = make_boards(verify_below(results))
    (board,) = boards
    refused = {run.name: run.reason for run in (*board.unranked, *others)}
    assert refused[name].startswith("refused: "), refused
    after = ranks(board)
    if board.scales:
        assert all(value[1:] == before[key][1:] for key, value in after.items())
        assert before.keys() - after.keys() <= {name}
    else:  # without floor or oracle nothing is ranked
        assert forge in (floor_raised, floor_renamed, oracle_lowered)
        assert {row.rank for row in board.rows} == {None}
    assert name not in after or name in before
    assert main(["leaderboard", "build", str(results), "--out", str(results / "page.md")]) == 0
    assert f"not ranked: {name} (" in capsys.readouterr().out


def test_errors_and_retries_are_on_the_page(results: Path) -> None:
    """A wholly rewritten run cannot be told apart, but errors and retries are counted."""
    folder = folder_of(results, "player")
    episodes = read_episodes(folder)
    write_complete(folder, read_run(folder), [as_lost_by_error(episodes[0]), *episodes])
    row = next(row for row in board_below(results).rows if row.name == "player")
    assert {label: (env.errors, env.retries) for label, env in row.envs.items()} == {
        "EZPoints": (0, 1),
        "Sokoban": (0, 0),
    }
    write_complete(folder, read_run(folder), [as_lost_by_error(e) for e in episodes])
    row = next(row for row in board_below(results).rows if row.name == "player")
    assert sum(env.errors for env in row.envs.values()) == sum(not e.won for e in latest(episodes)) > 0


def test_two_runs_of_one_training_seed_contest_each_other(results: Path) -> None:
    a_lucky_seed(results)
    board = board_below(results)
    assert [row.seeds for row in board.rows if row.contested_by] == [1, 1]


def test_a_suite_of_the_same_name_is_told_apart_by_its_digest(tmp_path: Path) -> None:
    for folder, steps in (("one", 15), ("two", 20)):
        (tmp_path / folder / "suites").mkdir(parents=True)
        path = tmp_path / folder / "suites" / "mini.toml"
        path.write_text(MINI.replace("max_steps = 15", f"max_steps = {steps}"))
        run_bench(path, tmp_path / folder / "results", agents=["random", "oracle"])
    built = build_leaderboard(tmp_path, tmp_path / "page.md")
    titles = [line for line in (tmp_path / "page.md").read_text().splitlines() if line.startswith("## mini")]
    assert titles == [f"## mini, version 1 (suite {board.suite_sha256[:12]})" for board in built.boards]
    assert {board.suite_sha256 for board in built.boards} == {
        load_suite(tmp_path / name / "suites" / "mini.toml").sha256 for name in ("one", "two")
    }


HOSTILE = (
    "x`\n\n## mini, version 1\n\n| Rank | Agent |\n| - | - |\n"
    "<img src=x onerror=alert(1)> [a](http://b) ![c](d)"
)


def hostile(run: EvalLog) -> Iterator[EvalLog]:
    """Yield a run with hostile text in each of its stated fields."""
    agent, stretch = run.agent, run.provenance[0]
    for model in ("algorithm", "base_model", "training_run"):
        yield replace(run, agent=replace(agent, model=replace(agent.model, **{model: HOSTILE})))
    yield replace(run, agent=replace(agent, parser=HOSTILE))
    for field in ("date", "agentgym"):
        yield replace(run, provenance=(replace(stretch, **{field: HOSTILE}),))


def test_no_text_of_a_run_is_markup(results: Path) -> None:
    folder = folder_of(results, "player")
    original, episodes = read_run(folder), read_episodes(folder)
    page = results / "page.md"
    build_leaderboard(results, page)
    head = [line for line in page.read_text().splitlines() if line.startswith("#")]
    for run in hostile(original):
        write_complete(folder, run, episodes)
        build_leaderboard(results, page)
        text = page.read_text()
        assert [line for line in text.splitlines() if line.startswith("#")] == head
        for forbidden in ("<img", " [a](", " ![c]", "\n| - |"):
            assert forbidden not in text
        assert "\n\n##" not in page.with_suffix(".tex").read_text()


@pytest.mark.parametrize("name", ["a\nb", "a|b", "<b>", "a b", "", "../../x", "a`b"])
def test_a_name_that_is_none_is_refused(results: Path, name: str) -> None:
    folder = folder_of(results, "player")
    table = json.loads((folder / "run.json").read_text())
    table["agent"]["name"] = name
    (folder / "run.json").write_text(json.dumps(table))
    boards, others = make_boards(verify_below(results))
    assert len(boards) == 1
    assert [run.reason.startswith("refused: ") for run in others] == [True]
    assert [run.name for run in others] == [folder.name]


# --- packed runs ------------------------------------------------------------------------------------


def test_packed_runs_give_the_same_page_byte_for_byte(results: Path, tmp_path: Path) -> None:
    for folder in sorted((results / "mini").iterdir()):
        pack_run(open_run(folder), tmp_path / "packed")
    pages = []
    for source in (results, tmp_path / "packed"):
        build_leaderboard(source, tmp_path / f"{source.name}.md")
        pages.append([(tmp_path / source.name).with_suffix(s).read_bytes() for s in (".md", ".json", ".csv")])
    assert pages[0] == pages[1]


def test_a_packed_run_comes_out_byte_for_byte(results: Path, tmp_path: Path) -> None:
    folder = folder_of(results, "player")
    unpacked = open_run(pack_run(open_run(folder), tmp_path / "packed")).folder
    for name in ("run.json", EPISODES_FILE):
        assert (unpacked / name).read_bytes() == (folder / name).read_bytes()
