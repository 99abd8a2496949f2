"""Observations on the wire: what a server says that they are."""

import pytest

from agentgym.registration import open_env
from agentgym.serving.env.wire import row_schema, write_space

TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("Sokoban", {"text": TEXT}),
        ("VisualSokoban", {"text": TEXT, "image_base64": TEXT}),  # a picture is a text of base64
    ],
)
def test_the_schema_of_an_observation_names_its_members(name, members):
    env = open_env(f"agentgym/{name}-v0")
    assert row_schema(write_space(env.observation_space)) == members
