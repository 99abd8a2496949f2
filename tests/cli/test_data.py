"""``agentgym data`` through the command line."""

import pytest

LEVEL = """\
; 0
##########
#@ $ $   #
#  $ $   #
#        #
#  . .   #
#  . .   #
#        #
#        #
#        #
##########
"""


@pytest.fixture
def copy(tmp_path):
    """Return a small copy of the upstream levels."""
    for place in (
        "unfiltered/train/000.txt",
        "unfiltered/test/000.txt",
        "medium/valid/000.txt",
        "hard/000.txt",
    ):
        path = tmp_path / "upstream" / place
        path.parent.mkdir(parents=True)
        path.write_text(LEVEL + "\n" + LEVEL.replace("; 0", "; 1"))
    (tmp_path / "upstream" / "README.md").write_text("# levels")
    return tmp_path / "upstream"


def test_import_then_list_path_and_verify(cli, copy, tmp_path):
    _, out, _ = cli("data", "list")
    assert next(line for line in out.splitlines() if line.startswith("boxoban ")).split()[-1] == "missing"
    code, out, _ = cli("data", "import", "boxoban", copy)
    assert (code, out) == (0, f"imported 4 files, 8 records, into {tmp_path / 'data' / 'sokoban'}\n")
    _, out, _ = cli("data", "list")
    assert "imported" in out
    assert cli("data", "path")[1] == f"{tmp_path / 'data'}\n"
    assert cli("data", "path", "boxoban")[1] == f"{tmp_path / 'data' / 'sokoban'}\n"
    assert cli("data", "verify", "boxoban")[:2] == (0, "boxoban: as it should be\n")


def test_verify_names_what_is_damaged(cli, copy, tmp_path):
    cli("data", "import", "boxoban", copy)
    damaged = tmp_path / "data" / "sokoban" / "hard" / "000.txt"
    damaged.write_text(LEVEL)
    code, out, _ = cli("data", "verify", "boxoban")
    assert (code, out) == (1, f"boxoban: {damaged} is not what was imported\n")


def test_verify_derives_generated_tasks_again(cli):
    code, out, _ = cli("data", "verify", "agentgym/EZPoints-v0")
    assert (code, out) == (0, "agentgym/EZPoints-v0: as it should be\n")


def test_bad_input(refused, copy, tmp_path):
    assert "did you mean 'boxoban'?" in refused("data", "import", "boxobam", copy)
    assert "did you mean 'boxoban'?" in refused("data", "path", "boxobam")
    assert "did you mean 'boxoban'?" in refused("data", "verify", "boxobam")
    assert "agentgym data import boxoban PATH" in refused("data", "path", "boxoban")
    assert "agentgym data import boxoban PATH" in refused("data", "verify", "boxoban")
    assert "unknown id 'agentgym/Nope-v0'" in refused("data", "verify", "agentgym/Nope-v0")
    assert "holds none of unfiltered/" in refused("data", "import", "boxoban", tmp_path / "nowhere")
    assert not (tmp_path / "data").exists()


def test_missing_data_of_an_environment_say_what_to_run(refused):
    words = ("play", "agentgym/Sokoban-v0", "--dataset", "boxoban/medium", "--split", "valid")
    assert "agentgym data import boxoban PATH" in refused(*words)
