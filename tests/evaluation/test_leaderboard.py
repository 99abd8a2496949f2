"""Boards and tables: who is ranked, with what interval, and what is said about the others."""

import csv
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from agentgym.agents.metadata import Model
from agentgym.core.hashing import sha256_json
from agentgym.core.suite_spec import Measure
from agentgym.errors import UsageError
from agentgym.evaluation.board import boards
from agentgym.evaluation.board.aggregates import Scale
from agentgym.evaluation.board.boards import Comparison, _detectable, make_boards, ranked
from agentgym.evaluation.board.exports import latex
from agentgym.evaluation.board.leaderboard import build_leaderboard, read_published
from agentgym.evaluation.board.published import Published
from agentgym.evaluation.board.scoring import EnvEpisodes
from agentgym.evaluation.board.statistics import Estimate, mean_score
from agentgym.evaluation.board.tables import environment_cells, markdown, score_cell
from agentgym.evaluation.log.results import EPISODES_FILE, Excluded, reopened
from agentgym.evaluation.log.runfiles import read_episodes, read_run, write_run
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.suites import suite_file
from agentgym.evaluation.suites.suite import SuiteEnv, load_suite
from agentgym.evaluation.verify.submissions import verify_below
from tests.evaluation.conftest import SUITE
from tests.evaluation.making import (
    add_run,
    believed,
    believed_board,
    board_below,
    folder_of,
    mixed,
)


@pytest.fixture
def results(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy" / "results"


def squeezed(page: str) -> str:
    """Return a page without the spaces that align its tables."""
    return re.sub(" +", " ", page)


@pytest.mark.parametrize("strict", [False, True])
def test_a_board_that_cannot_be_built_is_a_line_and_the_others_stand(
    results: Path, monkeypatch: pytest.MonkeyPatch, strict: bool
) -> None:
    other = SUITE.replace('name = "small"', 'name = "evil"')
    (results.parent / "suites" / "evil.toml").write_text(other)
    run_bench(results.parent / "suites" / "evil.toml", results, agents=["oracle"])
    plain = boards._board

    def failing(entries: Any, unranked: Any) -> Any:
        if entries[0].run.suite.name == "evil":
            raise ValueError("scores must lie within something")
        return plain(entries, unranked)

    monkeypatch.setattr(boards, "_board", failing)
    page = results / "page.md"
    if strict:
        with pytest.raises(
            UsageError, match=r"^nothing is written: run oracle: failed: its board: ValueError"
        ):
            build_leaderboard(results, page, strict=True)
        return
    found = build_leaderboard(results, page)
    assert [board.suite.name for board in found.boards] == ["small"]
    assert [(run.name, run.suite) for run in found.unranked] == [("oracle", "evil")]
    assert "scores must lie within something" in page.read_text()


def test_a_score_outside_of_the_bounds_of_its_suite_is_a_line(results: Path) -> None:
    """Of an honest run, whose suite states too little; and the other board is built."""
    table = 'metric = "score"\nbounds = [-1.0, 0.5]\nsplit = "test"'
    other = SUITE.replace('name = "small"', 'name = "evil"').replace('split = "test"', table, 1)
    (results.parent / "suites" / "evil.toml").write_text(other)
    run_bench(results.parent / "suites" / "evil.toml", results, agents=["oracle"])
    found = build_leaderboard(results, results / "page.md")
    assert [board.suite.name for board in found.boards] == ["small"]
    (line,) = found.unranked
    assert line.reason == (
        "refused: a score of Corridor is 1, outside of the bounds [-1, 0.5] that its suite states: "
        "state those of the environment"
    )


def test_a_score_is_shown_with_its_interval_and_an_environment_not_played_as_a_dash() -> None:
    row: Any = SimpleNamespace(envs={"E": SimpleNamespace(score=Estimate(0.5, 0.25, 1.0, "t"))})
    for label, metric, bounds, cell in (
        ("E", "success", (0.0, 9.0), "50.0 [25.0, 100.0]"),
        ("E", "score", (0.0, 1.0), "50.0 [25.0, 100.0]"),
        ("E", "score", (0.0, 10.0), "0.5 [0.2, 1.0]"),
        ("other", "success", (0.0, 1.0), "-"),
    ):
        env: Any = SimpleNamespace(env=SimpleNamespace(label=label, metric=metric, bounds=bounds))
        assert str(score_cell(row, env)) == cell


def test_floor_and_oracle_define_the_scale(results: Path) -> None:
    board = believed_board(results)
    assert [(row.name, row.role, row.rank) for row in board.rows] == [
        ("oracle", "oracle", 1),
        ("random", "floor", 2),
    ]
    oracle, random = board.rows
    assert oracle.aggregate is not None
    assert random.aggregate is not None
    assert oracle.aggregate.mean.value == pytest.approx(1.0)
    assert random.aggregate.mean.value == pytest.approx(0.0)
    assert board.scales["Corridor"] == Scale(random.envs["Corridor"].score.value, 1.0)
    assert [row.badge for row in board.rows] == ["replayed", "replayed"]


def test_numbers_are_those_of_the_episodes(results: Path) -> None:
    board = believed_board(results)
    episodes = [e for e in read_episodes(folder_of(results, "random")) if e.env == "Corridor"]
    result = next(row for row in board.rows if row.name == "random").envs["Corridor"]
    won = np.array([[e.won for e in episodes if e.task_id == f"{t:032x}"] for t in range(12)], float)
    assert result.success == mean_score(won)
    assert result.score == result.success
    assert result.steps.value == pytest.approx(np.mean([e.length for e in episodes]))
    assert sum(result.ends.values()) == 24
    assert set(result.by_type) == {"short", "long"}
    short = [e.won for e in episodes if e.task_type == "short"]
    assert result.by_type["short"].value == pytest.approx(np.mean(short))
    oracle = next(row for row in board.rows if row.name == "oracle").envs["Corridor"]
    assert oracle.tokens_per_success is not None
    played = [e for e in read_episodes(folder_of(results, "oracle")) if e.env == "Corridor"]
    assert oracle.tokens_per_success.value == pytest.approx(sum(12 * e.length for e in played) / 24)
    assert result.tokens_per_success is None


def test_task_types_are_columns(results: Path) -> None:
    board = believed_board(results)
    lines = markdown([board], Published()).partition("### By task type\n\n")[2].splitlines()[:4]
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    assert head == ["Environment", "Agent", "long", "short", "All"]
    for cells, row in zip(rows, board.rows, strict=True):
        result = row.envs["Corridor"]
        assert cells[:2] == ["Corridor (success %)", f"*{row.name}*"]
        shown = [float(cell.partition(" ")[0]) for cell in cells[2:]]
        expected = [result.by_type["long"], result.by_type["short"], result.score]
        assert shown == [pytest.approx(100 * estimate.value, abs=0.05) for estimate in expected]


def test_rows_that_cannot_be_told_apart_share_a_rank(results: Path) -> None:
    add_run(results, "oracle", "half", Model(), mixed(results, 0.5, seed=1))
    add_run(results, "oracle", "halves", Model(), mixed(results, 0.5, seed=2))
    board = believed_board(results)
    by_name = {row.name: row for row in board.rows}
    assert by_name["half"].rank == by_name["halves"].rank
    assert by_name["oracle"].rank == 1
    page = markdown([board], Published())
    assert f"| {by_name['half'].rank}= | half |" in squeezed(page)
    p_values = [pair.p_holm for pair in board.comparisons]
    assert len(p_values) == 6
    assert all(pair.p <= pair.p_holm <= 1.0 for pair in board.comparisons)


def test_ranks_need_significance_after_adjustment(results: Path) -> None:
    board = believed_board(results)
    rows = [replace(row, rank=None) for row in board.rows]
    for p_holm, expected in ((0.04, [1, 2]), (0.06, [1, 1])):
        pair = Comparison("oracle", "random", 1.0, 0.1, p=0.01, p_holm=p_holm)
        assert [row.rank for row in ranked(rows, [pair])] == expected


def test_badges_follow_verification(results: Path) -> None:
    board = board_below(results)
    assert [(row.name, row.badge) for row in board.rows] == [("oracle", "re-run"), ("random", "re-run")]


def test_rejected_and_partial_runs_have_no_numbers(results: Path) -> None:
    episodes = read_episodes(folder_of(results, "oracle"))
    forged = [replace(e, won=True, score=1.0, progress=1.0, end_reason="success") for e in episodes]
    add_run(results, "oracle", "liar", Model(), forged)
    add_run(results, "oracle", "lazy", Model(), episodes[:-1])
    unfinished = add_run(results, "oracle", "slow", Model(), episodes[:10])
    write_run(results / "small" / unfinished.folder_name, reopened(unfinished))
    add_run(results, "oracle", "twice", Model(), [*episodes, episodes[0]])
    add_run(results, "oracle", "elsewhere", Model(), [replace(episodes[0], env="Elsewhere"), *episodes[1:]])
    edited = add_run(results, "oracle", "editor", Model(), episodes)
    with (results / "small" / edited.folder_name / EPISODES_FILE).open("a") as file:
        file.write("x")
    damaged = results / "small" / "damaged"
    damaged.mkdir()
    (damaged / "run.json").write_text('{"schema": 2}')
    boards, unranked = make_boards(verify_below(results))
    (board,) = boards
    assert {row.name for row in board.rows} == {"oracle", "random"}
    reasons = {run.name: run.reason for run in (*board.unranked, *unranked)}
    assert reasons["slow"] == "partial: 10 of 44 episodes"
    for name in ("liar", "lazy", "twice", "elsewhere", "editor", "damaged"):
        assert reasons[name].startswith("refused: "), name
    page = markdown([board], Published(), unranked=unranked)
    for name in reasons:
        assert f"Not ranked: `{name}`" in page


def test_without_floor_or_oracle_nothing_is_ranked(results: Path) -> None:
    shutil.rmtree(folder_of(results, "random"))
    board = believed_board(results)
    assert board.scales == {}
    assert [(row.rank, row.aggregate) for row in board.rows] == [(None, None)]
    assert "No rank: that takes a complete run each of floor and oracle" in markdown([board], Published())


def test_an_oracle_no_better_than_chance_is_not_a_scale(results: Path) -> None:
    episodes = [
        replace(e, won=False) if e.env == "Ice" else e for e in read_episodes(folder_of(results, "oracle"))
    ]
    shutil.rmtree(folder_of(results, "oracle"))
    add_run(results, "random", "oracle", Model(), episodes)
    board = believed_board(results)
    assert not board.scales["Ice"].usable
    assert board.rows[0].aggregate is not None
    assert board.rows[0].aggregate.mean.value == pytest.approx(1.0)
    assert "**Ice** is not normalised (n/a)" in markdown([board], Published())


def test_training_seeds_make_one_row(results: Path) -> None:
    for seed in range(3):
        model = Model(algorithm="GRPO", base_model="tiny", training_seed=seed, weights_sha256=f"{seed:064}")
        add_run(results, "oracle", "trained", model, mixed(results, 0.6, seed=seed))
    add_run(results, "oracle", "once", Model(training_seed=4), mixed(results, 0.6, seed=9))
    board = believed_board(results)
    row = next(row for row in board.rows if row.name == "trained")
    assert (row.seeds, len(row.runs)) == (3, 3)
    assert row.envs["Corridor"].score.method == "runs"
    assert row.aggregate is not None
    assert row.aggregate.mean.method == "runs"
    assert row.rank is None
    page = markdown([board], Published())
    assert "`trained`: 3 training seeds; its intervals are over runs." in page  # it has no rank
    assert "`once`: one training seed, so its intervals and rank are of this checkpoint" in page
    untold = "".join(line for line in page.splitlines() if line.startswith("- Cannot be told with"))
    assert all(f"`{other}`" in untold for other in ("oracle", "random", "once"))
    assert "| GRPO | tiny | 3 |" in squeezed(page)


def test_rows_of_several_runs_are_ranked_by_permuting_runs(results: Path) -> None:
    for seed in range(5):
        for name, share in (("good", 0.9), ("poor", 0.2)):
            model = Model(algorithm=name, training_seed=seed, weights_sha256=sha256_json([name, seed]))
            add_run(results, "oracle", name, model, mixed(results, share, seed=seed + 10 * (name == "poor")))
    board = believed_board(results)
    (pair,) = (pair for pair in board.comparisons if {pair.first, pair.second} == {"good", "poor"})
    assert pair.p == 2 / 252
    # one of two pairs that can be told, the other that of floor and oracle
    told = {frozenset((pair.first, pair.second)) for pair in board.comparisons if pair.p_holm < 1.0}
    assert told == {frozenset(("good", "poor")), frozenset(("oracle", "random"))}
    assert pair.p_holm in (pair.p, 2 * pair.p)
    assert {row.name: row.rank for row in board.rows} == {"good": 1, "oracle": 1, "poor": 2, "random": 2}
    page = markdown([board], Published())
    assert "- Cannot be told with 5 and 1 runs:" in page or "- Cannot be told with 1 and 5 runs:" in page
    found = re.search(r"found with probability 0\.8.*: \(`good`, `poor`\) (0\.\d+)\.", page)
    assert found is not None
    assert 0.0 < float(found[1]) < abs(pair.difference)


def test_a_copy_of_a_run_is_no_further_training_seed(results: Path) -> None:
    for seed in (0, 99):
        model = Model(training_seed=seed, weights_sha256=f"{seed:064}")
        add_run(results, "oracle", "copied", model, mixed(results, 0.6))
    board = believed_board(results)
    assert [(row.seeds, len(row.runs)) for row in board.rows if row.name == "copied"] == [(1, 1)]
    assert [run.reason[:17] for run in board.unranked] == ["the same episodes"]


def test_a_second_run_of_one_agent_counts_once_or_by_itself(results: Path) -> None:
    for seed, weights in enumerate(("a" * 64, "b" * 64, "c" * 64)):
        model = Model(training_seed=0, weights_sha256=weights)
        add_run(results, "oracle", "lucky", model, mixed(results, 0.6, seed=seed // 2))
    board = believed_board(results)
    lucky = [row for row in board.rows if row.name.startswith("lucky#")]
    assert [(len(row.runs), len(row.contested_by)) for row in lucky] == [(1, 1), (1, 1)]
    assert [run.reason[:17] for run in board.unranked] == ["the same episodes"]


def test_agents_that_share_a_name_are_told_apart(results: Path) -> None:
    add_run(results, "oracle", "twin", Model(algorithm="one"), mixed(results, 0.9))
    add_run(results, "oracle", "twin", Model(algorithm="other"), mixed(results, 0.8))
    board = believed_board(results)
    assert sorted(row.name.partition("#")[0] for row in board.rows) == ["oracle", "random", "twin", "twin"]
    assert len({row.name for row in board.rows}) == 4


def test_runs_over_other_episodes_are_never_compared(results: Path) -> None:
    folder = folder_of(results, "oracle")
    run = read_run(folder)
    first = replace(run.envs[0], manifest_sha256="0" * 64)
    write_run(folder, replace(run, envs=(first, run.envs[1])))
    assert sorted([row.name for row in board.rows] for board in believed(results)) == [["oracle"], ["random"]]


def test_files_are_a_function_of_the_results(results: Path, tmp_path: Path) -> None:
    names = ("LEADERBOARD.md", "LEADERBOARD.json", "LEADERBOARD.csv", "LEADERBOARD.tex")
    build_leaderboard(results, tmp_path / "one" / names[0])
    build_leaderboard(results, tmp_path / "two" / names[0])
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == sorted(names)


def test_progress_is_shown_where_there_is_a_console(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unboxed: None
) -> None:
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))  # which knows no verdict
    shown = io.StringIO()
    build_leaderboard(results, tmp_path / "page.md", console=Console(file=shown, force_terminal=True))
    assert "verifying oracle" in shown.getvalue()


def test_a_board_of_one_compares_nothing(results: Path, tmp_path: Path) -> None:
    build_leaderboard(results, tmp_path / "two.md")
    assert "### Comparisons" in (tmp_path / "two.md").read_text()
    shutil.rmtree(folder_of(results, "random"))
    build_leaderboard(results, tmp_path / "one.md")
    assert "### Comparisons" not in (tmp_path / "one.md").read_text()


def test_two_boards_share_a_folder(results: Path, tmp_path: Path) -> None:
    for name in ("one.md", "two.v2.md"):
        build_leaderboard(results, tmp_path / name)
    stems = {"one", "two.v2"}
    found = {path.name for path in tmp_path.iterdir() if path.is_file()}
    assert {f"{stem}.{kind}" for stem in stems for kind in ("md", "json", "csv", "tex")} <= found
    with pytest.raises(UsageError, match=r"ends in \.md, not .*page\.csv"):
        build_leaderboard(results, tmp_path / "page.csv")


def test_every_number_has_its_interval(results: Path, tmp_path: Path) -> None:
    build_leaderboard(results, tmp_path / "LEADERBOARD.md")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "LEADERBOARD.csv").read_text())))
    assert {(row["agent"], row["rank"]) for row in rows} == {("oracle", "1"), ("random", "2")}
    assert {row["agent"] for row in rows} == {"oracle", "random"}
    for row in rows:
        assert float(row["low"]) <= float(row["value"]) <= float(row["high"])
    board = json.loads((tmp_path / "LEADERBOARD.json").read_text())["boards"][0]
    profile = board["rows"][0]["aggregate"]["profile"]
    assert len(profile) == 21
    assert all(point["low"] <= point["value"] <= point["high"] for point in profile)
    assert board["detectable"]["Corridor"] == pytest.approx(0.628, abs=1e-3)


@pytest.mark.parametrize(("tasks", "percent"), [(1, None), (6, None), (7, 89.6), (12, 62.8)])
def test_a_difference_wider_than_the_scale_is_none(results: Path, tasks: int, percent: float | None) -> None:
    found = read_run(folder_of(results, "oracle")).envs[0]
    found = replace(found, env=replace(found.env, tasks=tasks))
    assert found.env.metric == "success"
    difference = _detectable(found)
    assert difference == (None if percent is None else pytest.approx(percent / 100, abs=1e-3))
    board = believed_board(results)
    board = replace(board, envs=(found,), detectable={found.env.label: difference})
    _, lines = environment_cells(board)
    assert [line[-1] for line in lines] == ["none" if percent is None else f"{percent}"]
    assert "none where so few tasks tell no two apart" in markdown([board], Published())


def test_latex_escapes_and_shades(results: Path) -> None:
    add_run(results, "oracle", "a_b", Model(), mixed(results, 0.5))
    text = latex(believed(results))
    assert r"a\_b" in text
    assert text.count(r"\rowcolor{gray!15}") == 2
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 1


def test_no_name_breaks_a_table(results: Path) -> None:
    board = believed(results)[0]
    row = replace(board.rows[0], name="a|b\n<script>", role="agent")
    page = markdown([replace(board, rows=(row, board.rows[1]), comparisons=())], Published())
    assert "a\\|b &lt;script>" in page
    assert "<script>" not in page


def test_no_label_is_read_as_markdown(results: Path) -> None:
    label = "[x](http://y) `*`|<b>&"
    (board,) = believed(results)
    hostile = {"Ice": label, "Corridor": "Corridor"}
    envs = tuple(replace(e, env=replace(e.env, label=hostile[e.env.label])) for e in board.envs)
    rows = [replace(row, envs={hostile[k]: v for k, v in row.envs.items()}) for row in board.rows]
    gone = replace(rows[0], left_out=(Excluded(label, "r"),))
    scales = {label: Scale(1.0, 0.0)}
    columns = {label: (Measure(name="spl", about="a"),)}
    board = replace(board, envs=envs, rows=(gone, *rows[1:]), scales=scales, columns=columns)
    board = replace(board, left_out=(label,), attested=(label,), detectable=dict.fromkeys(hostile.values()))
    page = markdown([board], Published())
    assert "[x](" not in page
    assert page.count(r"\[x\](http://y) \`\*\`") >= 8
    assert "<b>" not in page
    assert "&amp;amp;" not in page


def test_left_out_environments_are_on_the_page_and_nothing_is_ranked(results: Path) -> None:
    for name in ("oracle", "random"):
        run = read_run(folder_of(results, name))
        write_run(folder_of(results, name), replace(run, left_out=(Excluded("Swamp", "no data: /home/x"),)))
    board = believed_board(results)
    assert {row.rank for row in board.rows} == {None}
    page = markdown([board], Published())
    assert "**Swamp** is left out" in page
    assert "/home/x" not in page


def test_published_results_are_shown_apart(results: Path, tmp_path: Path) -> None:
    (tmp_path / "published.toml").write_text(
        '[[paper]]\nname = "P"\ntable = "2"\nmodel = "m"\nprotocol = "one seed"\n'
        'column = [{ environment = "Corridor" }, { environment = "Corridor", metric = "F1" }]\n'
        'row = [{ method = "GRPO", cells = [[67.12, 4.7], [3.0]] }]\n'
    )
    build_leaderboard(results, tmp_path / "LEADERBOARD.md")
    page = (tmp_path / "LEADERBOARD.md").read_text()
    ranked, _, apart = page.partition("## Published, not ranked")
    assert "| Corridor | P, Table 2 | m | GRPO | 67.12 ± 4.7 |" in squeezed(apart)
    assert "- P, Table 2: one seed." in apart
    assert "GRPO" not in ranked
    published = json.loads((tmp_path / "LEADERBOARD.json").read_text())["published"]
    assert published["paper"][0]["row"][0]["cells"] == [[67.12, 4.7], [3.0]]


def test_published_results_stand_below_the_boards_they_belong_to(results: Path, tmp_path: Path) -> None:
    paper = '[[paper]]\nname = "P"\ntable = "2"\nmodel = "m"\nprotocol = "one seed"\n'
    paper += (
        'column = [{ environment = "Corridor" }, { environment = "Swamp" }]\n'
        'row = [{ method = "GRPO", cells = [[67.12], []] }, { method = "PPO", cells = [[], [3.0]] }]\n'
    )
    (tmp_path / "published.toml").write_text(f'{paper}[beside]\nCorridor = ["small"]\nSwamp = ["other"]\n')
    build_leaderboard(results, tmp_path / "LEADERBOARD.md")
    page = squeezed((tmp_path / "LEADERBOARD.md").read_text())
    board, _, rest = page.partition("### Published, not ranked")
    below, _, apart = rest.partition("## Published, not ranked")
    assert "GRPO" not in board
    assert "| Corridor | P, Table 2 | m | GRPO | 67.12 |" in below
    assert "GRPO" not in apart
    assert "| Swamp | P, Table 2 | m | PPO | 3.0 |" in apart
    assert "PPO" not in below


def test_published_results_of_alfworld_stand_beside_the_current_dialect_alone() -> None:
    published = read_published(Path(__file__).parents[2] / "benchmarks" / "published.toml")
    environments = {rate.environment for _, rate in published.apart(())}
    assert published.beside.keys() <= environments
    for environment in environments:
        beside = published.beside.get(environment, ())
        assert bool(beside) == environment.startswith("ALFWorld")
        for name in beside:
            (env,) = load_suite(suite_file(name)).env
            assert env.kwargs["dialect"] == "current"


def test_rows_of_papers_fit_their_columns(tmp_path: Path) -> None:
    paper = '[[paper]]\nname = "P"\ntable = "2"\nmodel = "m"\nprotocol = "one seed"\n'
    paper += 'column = [{ environment = "Corridor" }]\n'
    for row, complaint in (("[]", "0 cells for 1 columns"), ("[[1.0, 2.0, 3.0]]", "a number and its spread")):
        (tmp_path / "published.toml").write_text(f'{paper}row = [{{ method = "PPO", cells = {row} }}]\n')
        with pytest.raises(UsageError, match=complaint):
            read_published(tmp_path / "published.toml")


def test_no_runs_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run below"):
        build_leaderboard(tmp_path, tmp_path / "LEADERBOARD.md")


def test_incomplete_episodes_cannot_be_arranged(results: Path) -> None:
    env = SuiteEnv("tests/Corridor-v0", "Corridor", "test", 12)
    episodes = [e for e in read_episodes(folder_of(results, "oracle")) if e.env == "Corridor"]
    assert EnvEpisodes(env, 2, [episodes]).scores.shape == (1, 12, 2)
    with pytest.raises(ValueError, match="23 episodes are not 12 x 2"):
        EnvEpisodes(env, 2, [episodes[:-1]])


def test_a_picture_of_a_training_run_is_shown_with_its_policy(results: Path, tmp_path: Path) -> None:
    add_run(results, "oracle", "learner", Model(training_run="my run"), mixed(results, 0.5))
    page, curves = tmp_path / "page" / "LEADERBOARD.md", tmp_path / "page" / "curves"
    build_leaderboard(results, page)
    assert "![" not in page.read_text()
    curves.mkdir()
    for name in ("my run", "another"):
        (curves / f"{name}.png").write_bytes(b"")
    build_leaderboard(results, page)
    assert page.read_text().count("![") == 1
    assert "![How the policy of learner was trained](curves/my%20run.png)" in page.read_text()
