"""The size of a large board: twenty agents on nine environments, with everything that its page loads."""

import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import agentgym.site
from agentgym.evaluation.board.boards import Board, Comparison, make_boards
from agentgym.evaluation.board.scoring import EndpointUse
from agentgym.evaluation.verify.submissions import verify_below
from agentgym.site.boards import board_page
from agentgym.site.rendering import data_script, render
from agentgym.site.scatter import spending_panels

PACKAGE = Path(agentgym.site.__file__).parent
AGENTS, ENVIRONMENTS = 20, 9
MAX_PAGE_SIZE = 500_000


def large_board(board):
    """A board of so many rows and columns, with all that a row can have."""
    env, source = board.envs[1], board.rows[1]
    labels = [f"Environment {number}" for number in range(ENVIRONMENTS)]
    result = source.envs[env.env.label]
    use = EndpointUse(12_345, 123_456, 12_345, 1.2345, 1.23, 4.56)
    ends = {"failure": 100, "parse_error": 7, "step_limit": 25, "success": 68}
    spent = replace(result.score, value=12_345.6, low=10_000.0, high=20_000.0)
    full = replace(result, ends=ends, endpoint=use, tokens_per_success=spent, cost_per_success=spent)
    rows = []
    for number in range(AGENTS):
        model = replace(
            source.agent.model, algorithm=f"Algorithm {number % 5}", training_episodes=100 * number
        )
        agent = replace(
            source.agent, name=f"agent-{number}", model=replace(model, base_model=f"Model-{number % 4}B")
        )
        envs = dict.fromkeys(labels, full)
        rows.append(replace(source, name=agent.name, agent=agent, envs=envs, rank=1 + number))
    names = [row.name for row in rows]
    return replace(
        board,
        envs=tuple(replace(env, env=replace(env.env, label=label)) for label in labels),
        columns=dict.fromkeys(labels, board.columns[env.env.label]),
        scales=dict.fromkeys(labels, board.scales[env.env.label]),
        detectable=dict.fromkeys(labels, 0.1),
        rows=tuple(rows),
        comparisons=tuple(Comparison(a, b, 0.1, 0.05, 0.01, 0.02) for a, b in combinations(names, 2)),
    )


def write_large_board(board: Board, folder: Path) -> tuple[Path, int]:
    """Write the page of a large board, and all that it loads; return its path, and its size in bytes."""
    board = large_board(board)
    page = render("board.html", "Boards", page=board_page(board, "large", 1, {}))
    loaded = set(re.findall(r'(?:src|href)="(static/[^"]+)"', page))
    for name in loaded:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((PACKAGE / name).read_bytes())
    (folder / "data").mkdir()
    panels = [panel.as_json for panel in spending_panels(board)]
    (folder / "data" / "board-1.js").write_text(data_script("board/1", panels))
    (folder / "board-1.html").write_text(page)
    return folder / "board-1.html", sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_a_large_board_is_small(made_site, tmp_path):
    boards, _ = make_boards(verify_below(made_site.results))
    page, size = write_large_board(boards[0], tmp_path)
    assert {"uPlot.iife.min.js", "site.css"} <= {path.name for path in (tmp_path / "static").iterdir()}
    assert page.read_text().count("<tr") > AGENTS * ENVIRONMENTS
    assert size <= MAX_PAGE_SIZE
