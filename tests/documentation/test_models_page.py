"""Chat templates of TRL, which are those of the models: each does what its row of docs/templates.csv says."""

import pytest

from agentgym.core.tools import tool_schemas
from agentgym.prompts.chat_template import ChatSetup
from tools import model_tables, template_rows
from tools.template_trials import Template, episodes

pytest.importorskip("trl")

ROWS = template_rows.read_rows()
REFUSED = {"lfm2"}
"""Templates whose calls are not read back as they were, so that they are handed no tools."""


@pytest.fixture(scope="module")
def played():
    return episodes()


@pytest.fixture(scope="module", params=model_tables.trl_templates(), ids=lambda path: path.stem)
def named(request):
    return request.param.stem, Template(request.param.read_text(encoding="utf-8"))


def test_the_row_says_what_a_template_does(named, played):
    name, template = named
    assert template.row(played) == ROWS[name, template_rows.TRL], "run python -m tools.model_tables"


def test_calls_of_every_suite_are_read_back_or_tools_are_refused(named, played):
    name, template = named
    for tools in played:
        taken = ChatSetup(tools=tuple(tool_schemas(tools))).taken_by(template.template)
        trip = template.chat.tool_trip(tools)
        if taken.tools:
            assert bool(trip.convention) != bool(trip.problem), trip
            assert bool(trip.problem) == (name in REFUSED), trip.problem
            assert trip.tried >= len(tools) or trip.problem


def test_the_file_has_each_template_once():
    own = {path.stem for path in model_tables.trl_templates()}
    assert {name for name, source in ROWS if source == template_rows.TRL} == own
    assert max(len(cell) for key, row in ROWS.items() for cell in (*key, *row)) <= 41
    text = template_rows.ROWS.read_text(encoding="utf-8")
    assert text == template_rows.text_of(ROWS)
    assert text.count("\n") == len(ROWS) + 1
