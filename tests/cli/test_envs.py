from agentgym.registration import ENVIRONMENTS


def test_every_environment_is_listed_with_its_splits(cli):
    code, out, err = cli("envs")
    assert (code, err) == (0, "")
    rows = {line.split()[0]: line for line in out.splitlines() if line.startswith("agentgym/")}
    assert rows.keys() == ENVIRONMENTS.keys()
    assert "train (10,000), valid (1,000), test (1,000)" in rows["agentgym/Sokoban-v0"]
    assert "unseen_pairs (" in rows["agentgym/EZPoints-v0"]


def test_official_data_sets_are_listed_present_or_missing(cli, tmp_path):
    (tmp_path / "data" / "sokoban" / "medium" / "valid").mkdir(parents=True)
    _, out, _ = cli("envs")
    (medium,) = {line.strip() for line in out.splitlines() if "boxoban/medium" in line}
    (hard,) = {line.strip() for line in out.splitlines() if "boxoban/hard" in line}
    assert medium.split(maxsplit=1)[1] == "train, valid"
    assert "missing: agentgym data import boxoban PATH" in hard
