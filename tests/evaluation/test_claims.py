"""Claims that contradict each other, copies, and the places of runs, which decide nothing."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym.agents.metadata import Model
from agentgym.core.hashing import sha256_json
from agentgym.evaluation.board.boards import Board
from agentgym.evaluation.board.exports import as_csv, as_json
from agentgym.evaluation.board.leaderboard import build_leaderboard
from agentgym.evaluation.board.published import Published
from agentgym.evaluation.board.tables import markdown, notes
from agentgym.evaluation.log.results import EvalSample
from agentgym.evaluation.log.runfiles import read_episodes, read_run
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.suites.suite import SuiteAgent
from tests.evaluation.conftest import SUITE
from tests.evaluation.making import believed, believed_board, write_complete


@pytest.fixture
def results(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy" / "results"


def episodes_of(results: Path, name: str) -> dict[tuple[str, str, int], EvalSample]:
    (folder,) = results.glob(f"small/{name}-*")
    return {episode.key: episode for episode in read_episodes(folder)}


def mixed(results: Path, better: Callable[[int], bool]) -> list[EvalSample]:
    """Take the oracle's episodes of some places, else those of the random agent."""
    oracle, random = episodes_of(results, "oracle"), episodes_of(results, "random")
    return [(oracle if better(place) else random)[key] for place, key in enumerate(oracle)]


def submit(results: Path, place: str, name: str, episodes: list[EvalSample], seed: int | None = None) -> str:
    """Add a run of an agent that does not play again; return its result id."""
    (folder,) = results.glob("small/oracle-*")
    model = Model(training_seed=seed)
    run = replace(read_run(folder), agent=SuiteAgent(name, "scripted", {"path": "moves.jsonl"}, model=model))
    run = replace(run, request_id=sha256_json(run.request))
    (results / place).mkdir(parents=True)
    written = write_complete(results / place, run, episodes)
    assert written.result_id is not None
    return written.result_id


def rows_of(board: Board, name: str) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    return [(row.results, row.contested_by) for row in board.rows if row.name.partition("#")[0] == name]


def pages(results: Path) -> list[str]:
    boards = believed(results)
    return [markdown(boards, Published()), as_json(boards, Published()), as_csv(boards)]


@pytest.mark.parametrize("place", ["aaa", "zzz"])
def test_a_copied_identity_with_bad_episodes_takes_nobodys_row(results: Path, place: str) -> None:
    honest = submit(results, "small/honest", "rival", mixed(results, lambda n: n % 4 > 0))
    alone = next(row for row in believed_board(results).rows if row.name == "rival")
    forged = submit(results, place, "rival", mixed(results, lambda n: False))
    board = believed_board(results)
    assert sorted(rows_of(board, "rival")) == sorted([((honest,), (forged,)), ((forged,), (honest,))])
    row = next(row for row in board.rows if row.results == (honest,))
    assert row.aggregate == alone.aggregate
    assert row.envs == alone.envs
    assert row.rank is not None
    assert row.earned == "replayed, contested"
    assert not board.unranked
    page = markdown([board], Published())
    for first, second in ((honest, forged), (forged, honest)):
        assert f"(result `{first[:12]}`) is contested by result `{second[:12]}`" in page


def three_seeds(results: Path) -> list[str]:
    """Submit an agent of three training seeds from one folder."""
    return [
        submit(results, f"small/s{n}", "trained", mixed(results, lambda i, n=n: i % 3 == n), n)
        for n in range(3)
    ]  # type: ignore[misc]


def test_claims_that_contradict_each_other_are_no_training_seeds_of_one_row(results: Path) -> None:
    seeds = three_seeds(results)
    second = submit(results, "small/again", "trained", mixed(results, lambda n: False), 1)
    board = believed_board(results)
    assert sorted(rows_of(board, "trained")) == sorted(
        [((seeds[0], seeds[2]), ()), ((seeds[1],), (second,)), ((second,), (seeds[1],))]
    )
    assert len({row.name for row in board.rows}) == len(board.rows)


@pytest.mark.parametrize("seeds", [(1,), (7,), (7, 8, 9), (None,), (None, 1, 7), (0, 1, 2, 3)])
def test_runs_of_another_origin_change_no_row_of_seeds(results: Path, seeds: tuple[int | None, ...]) -> None:
    honest = tuple(three_seeds(results))
    before = next(row for row in believed_board(results).rows if row.name == "trained")
    forged = [
        submit(results, f"aaa/{n}", "trained", mixed(results, lambda i, n=n: i % 7 == n), seed)
        for n, seed in enumerate(seeds)
    ]  # type: ignore[misc]
    board = believed_board(results)
    (row,) = (row for row in board.rows if row.results == honest)
    assert (row.aggregate, row.envs, row.seeds) == (before.aggregate, before.envs, 3)
    assert set(row.contested_by) == {
        result for result, seed in zip(forged, seeds, strict=True) if seed in (0, 1, 2)
    }
    assert {result for other in board.rows for result in other.results} >= set(forged)


@pytest.mark.parametrize("place", ["aaa", "small"])
@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2, 3, 4), (None,)])
def test_no_run_joins_one_without_a_training_seed(
    results: Path, place: str, seeds: tuple[int | None, ...]
) -> None:
    honest = submit(results, "small/honest", "gpt-9", mixed(results, lambda n: True))
    before = next(row for row in believed_board(results).rows if row.name == "gpt-9")
    for n, seed in enumerate(seeds):
        submit(results, f"{place}/forged{n}", "gpt-9", mixed(results, lambda i, n=n: i % 7 == n), seed)  # type: ignore[misc]
    board = believed_board(results)
    (row,) = (row for row in board.rows if row.results == (honest,))
    assert (row.aggregate, row.envs, row.rank) == (before.aggregate, before.envs, before.rank)
    assert bool(row.contested_by) == (None in seeds)


@pytest.mark.parametrize("seeds", [(None,), (3,), (0, 1, 2), (1, 2, 0)])
def test_copies_of_another_origin_take_no_row_away_whatever_they_state(
    results: Path, seeds: tuple[int | None, ...]
) -> None:
    """One of them would come first by its digits; of seeds, another order would move the interval."""
    honest = tuple(three_seeds(results)) if len(seeds) == 3 else ()
    episodes = mixed(results, lambda n: n % 2 == 0)
    honest = honest or (submit(results, "small/one", "trained", episodes, 3),)
    before = next(row for row in believed_board(results).rows if row.results == honest)
    for cost in range(1, 6):
        for n, seed in enumerate(seeds):
            played = mixed(results, lambda i, n=n: i % 3 == n) if len(seeds) == 3 else episodes  # type: ignore[misc]
            submit(results, f"x{cost}/{n}", "trained", [replace(e, cost=float(cost)) for e in played], seed)
    board = believed_board(results)
    (row,) = (row for row in board.rows if row.results == honest)
    assert (row.aggregate, row.envs, row.seeds) == (before.aggregate, before.envs, before.seeds)
    assert len({row.name for row in board.rows}) == len(board.rows)


def test_a_set_of_copies_with_one_more_takes_no_row_away(results: Path) -> None:
    honest = tuple(three_seeds(results))
    for n in range(3):
        submit(results, f"aaa/{n}", "trained", mixed(results, lambda i, n=n: i % 3 == n), n)  # type: ignore[misc]
    board = believed_board(results)
    assert rows_of(board, "trained") == [(honest, ())]
    assert len(board.unranked) == 3
    submit(results, "aaa/3", "trained", mixed(results, lambda n: False), 3)
    rows = rows_of(believed_board(results), "trained")
    assert sorted(len(runs) for runs, _ in rows) == [3, 4]


def test_a_copy_counts_once_whatever_else_it_states(results: Path) -> None:
    episodes = mixed(results, lambda n: n % 2 == 0)
    first = submit(results, "small/one", "twin", episodes)
    second = submit(results, "small/two", "twin", [replace(e, cost=1.0, prompt_tokens=7) for e in episodes])
    board = believed_board(results)
    assert rows_of(board, "twin") == [((min(first, second),), ())]
    assert [run.reason for run in board.unranked] == [
        f"the same episodes as result {min(first, second)[:12]}, so they count once"
    ]


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.permutations([f"p{n}" for n in range(7)]))
def test_where_runs_lie_decides_nothing(results: Path, names: list[str]) -> None:
    """Two claims of one seed, a copy, seeds, and two agents of one name, in folders of any names."""
    root = results.parent / "shuffled"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(results, root / "results")
    place = names
    base = root / "results"
    good, bad = mixed(base, lambda n: n % 5 > 0), mixed(base, lambda n: n % 5 == 0)
    submit(base, place[0], "rival", good, 0)
    submit(base, place[1], "rival", bad, 0)
    submit(base, place[2], "rival", mixed(base, lambda n: n % 2 > 0), 1)
    submit(base, place[3], "rival", mixed(base, lambda n: n % 3 > 0), 2)
    submit(base, place[4], "other", good)
    submit(base, place[5], "other", [replace(e, cost=2.0) for e in good])
    submit(base, place[6], "rival", bad, 7)
    found = pages(base)
    kept = results.parent / "pages.json"
    if not kept.exists():
        kept.write_text(json.dumps(found))
    assert found == json.loads(kept.read_text())


def test_equal_episodes_under_another_name_or_seed_are_reported(results: Path) -> None:
    own = mixed(results, lambda n: n % 4 > 0)
    swapped = [*mixed(results, lambda n: n % 4 == 0)[:1], *own[1:]]
    original = submit(results, "small/one", "author", own, 0)
    copied = submit(results, "small/two", "copyist", own)
    as_seed = submit(results, "small/three", "author", swapped, 5)
    board = believed_board(results)
    assert {frozenset((pair.first_result, pair.second_result)): pair.equal for pair in board.alike} == {
        frozenset((original, copied)): len(own),
        frozenset((original, as_seed)): len(own) - 1,
        frozenset((copied, as_seed)): len(own) - 1,
    }
    assert {pair.of for pair in board.alike} == {len(own)}
    said = ["".join(text for _, text in note) for note in notes(board)]
    line = f"copyist (result {copied[:12]}): 100.0 % of its episodes (44 of 44) are equal, "
    assert any(note.startswith(line) and "author" in note for note in said)
    assert any("97.7 % of its episodes (43 of 44)" in note for note in said)


def test_agents_that_played_here_themselves_and_different_ones_are_not_reported(results: Path) -> None:
    submit(results, "small/one", "half", mixed(results, lambda n: n % 2 > 0))
    submit(results, "small/two", "other", mixed(results, lambda n: n % 3 > 0))
    assert believed_board(results).alike == ()
    oracle = list(episodes_of(results, "oracle").values())
    copy = submit(results, "small/three", "genius", oracle)
    (pair,) = believed_board(results).alike
    assert {pair.first, pair.second} == {"oracle", "genius"}
    assert copy in (pair.first_result, pair.second_result)


def test_episodes_without_an_accepted_action_make_nobody_a_copyist(results: Path) -> None:
    """Models whose answers cannot be read all play alike."""
    mute = [replace(e, invalid_count=e.length) for e in episodes_of(results, "random").values()]
    empty = [replace(e, actions=("",) * e.length) for e in mute]
    for name, episodes in (("mute", mute), ("silent", mute), ("empty", empty)):
        submit(results, f"small/{name}", name, episodes)
    pairs = believed_board(results).alike
    assert not [pair for pair in pairs if {pair.first, pair.second} <= {"mute", "silent", "empty"}]


def test_a_suite_file_beside_a_run_moves_no_scale_of_others(results: Path, tmp_path: Path) -> None:
    """No digest covers a suite's agents: in these files floor and oracle have changed places."""
    honest = build_leaderboard(results, tmp_path / "honest.md").boards
    kinds = {"random": "oracle", "oracle": "random"}
    for place in ("aaa", "zzz"):
        file = results / place / "suites" / "small.toml"
        file.parent.mkdir(parents=True)
        file.write_text(re.sub(r'kind = "(\w+)"', lambda found: f'kind = "{kinds[found[1]]}"', SUITE))
        run_bench(file, results / place, num_envs=5)
    boards = build_leaderboard(results, tmp_path / "page.md").boards
    assert len(boards) == 2
    assert honest[0] in boards
    assert sorted(row.role for board in boards for row in board.rows) == [
        "floor",
        "floor",
        "oracle",
        "oracle",
    ]


def test_three_claims_of_one_seed_are_three_rows_and_none_is_a_seed_of_another(results: Path) -> None:
    claims = {
        submit(results, f"p{n}", "rival", mixed(results, lambda i, n=n: i % 3 == n), 1) for n in range(3)
    }  # type: ignore[misc]
    further = submit(results, "q", "rival", mixed(results, lambda i: i % 5 == 0), 2)
    rows = dict(rows_of(believed_board(results), "rival"))
    assert {(result, frozenset(claims - {result})) for result in claims} | {(further, frozenset())} == {
        (result, frozenset(contested)) for (result,), contested in rows.items()
    }
