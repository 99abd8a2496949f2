"""The size of a large board: twenty agents on nine environments, with everything that its page loads."""

import re
from dataclasses import replace
from itertools import combinations

from agentgym.evaluation.boards import Comparison, make_boards
from agentgym.evaluation.scoring import EndpointUse
from agentgym.evaluation.submissions import verify_below
from agentgym.site.boards import board_page
from agentgym.site.rendering import data_script, render
from agentgym.site.scatter import spending_panels

AGENTS, ENVIRONMENTS = 20, 9
MOST = 500_000


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


def test_a_large_board_is_small(made_site):
    boards, _ = make_boards(verify_below(made_site.results))
    board = large_board(boards[0])
    page = render("board.html", "Boards", page=board_page(board, "large", 1, {}))
    loaded = set(re.findall(r'(?:src|href)="(static/[^"]+)"', page))
    assert {"static/uPlot.iife.min.js", "static/site.css"} < loaded
    data = data_script("board/1", [panel.as_json for panel in spending_panels(board)])
    assets = sum((made_site.folder / name).stat().st_size for name in loaded)
    assert len(page.encode()) + len(data) + assets <= MOST
