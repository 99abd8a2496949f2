"""Copies of official files as published: every importer takes them, and they say what the samples say."""

import os
from pathlib import Path

import pytest

from agentgym.registration import open_env
from tests.official.copies import BOXOBAN_COMMIT, Copies
from tests.official.machines import Machine, errors
from tests.official.tables import official, rewritten, write

pytestmark = pytest.mark.assets

DATA = Path(os.environ.get("AGENTGYM_DATA", "")).absolute()

PUBLISHED = {
    "alfworld": ["https://github.com/alfworld/alfworld/releases/download/0.2.2/json_2.1.1_tw-pddl.zip"],
    "webshop": [
        "https://raw.githubusercontent.com/WooooDyy/AgentGym/x/webshop/data/items_shuffle_1000.json",
        "https://raw.githubusercontent.com/WooooDyy/AgentGym/x/webshop/data/items_ins_v2_1000.json",
        "https://raw.githubusercontent.com/princeton-nlp/WebShop/x/baseline_models/data/items_human_ins.json",
    ],
    "hotpotqa": [
        "http://curtis.ml.cmu.edu/datasets/hotpot/hotpot_train_v1.1.json",
        "http://curtis.ml.cmu.edu/datasets/hotpot/hotpot_dev_distractor_v1.json",
        "http://curtis.ml.cmu.edu/datasets/hotpot/hotpot_dev_fullwiki_v1.json",
    ],
    "twowiki": ["https://www.dropbox.com/s/ms2m13252h6xubs/data_ids_april7.zip"],
    "musique": ["https://example.org/musique_v1.0.zip?id=1tGdADlNjWFaHLeZZGShh2IRcpO6Lv24h"],
    "boxoban": [f"https://codeload.github.com/google-deepmind/boxoban-levels/tar.gz/{BOXOBAN_COMMIT}"],
    "sotopia": [
        f"https://raw.githubusercontent.com/sotopia-lab/sotopia-space/x/profiles/{name}.jsonl"
        for name in (
            "agent_profiles",
            "environment_profiles",
            "env_agent_combo_storages",
            "relationship_profiles",
        )
    ]
    + [
        f"https://raw.githubusercontent.com/MozerWang/AMPO/x/sotopia_data/{name}.json"
        for name in ("env_agent_combos", "sotopia_hard")
    ],
    "papersearch": [
        f"https://huggingface.co/datasets/CarlanLark/pasa-dataset/resolve/x/AutoScholarQuery/{split}.jsonl"
        for split in ("train", "dev", "test")
    ],
    "searchqa": [
        f"https://huggingface.co/datasets/RUC-NLPIR/FlashRAG_datasets/resolve/x/nq/{split}.jsonl"
        for split in ("train", "dev", "test")
    ],
}
"""Addresses of what a user gets for each source by hand, in a browser or with wget."""

FOLDERS = {"papersearch": "AutoScholarQuery", "searchqa": "nq"}
"""Folders that files of a hub's repository lie in."""


def by_hand(copies, source, folder):
    """Put a source's files where a user who clicks on each link has them."""
    below = folder / FOLDERS.get(source, "")
    below.mkdir(parents=True, exist_ok=True)
    for url in PUBLISHED[source]:
        (below / url.partition("?")[0].rpartition("/")[2]).write_bytes(copies.of(url))
    return folder


@pytest.fixture(scope="module")
def copies():
    return Copies(DATA)


@pytest.fixture
def machine(tmp_path, copies):
    return Machine(tmp_path, write(tmp_path / "sources.toml", rewritten(copies.of, str)))


@pytest.mark.parametrize("source", PUBLISHED)
def test_a_folder_of_what_the_publisher_offers_is_imported(source, copies, machine):
    origin = by_hand(copies, source, machine.folder / "downloads")
    done = machine.run("data", "import", source, str(origin))
    assert done.returncode == 0, done.stderr
    assert machine.run("data", "verify", source).returncode == 0


@pytest.mark.parametrize("source", ["alfworld", "twowiki", "musique"])
def test_an_archive_is_imported_by_its_name(source, copies, machine):
    """As a folder of it alone is: the same files."""
    origin = by_hand(copies, source, machine.folder / "downloads")
    (archive,) = origin.iterdir()
    done = machine.run("data", "import", source, str(archive))
    assert done.returncode == 0, done.stderr
    found = machine.imported(source)
    done = machine.run("data", "import", source, str(origin))
    assert done.returncode == 0, done.stderr
    assert machine.imported(source) == found


def test_every_address_of_the_package_has_a_copy(copies):
    for file in official()["file"]:
        assert len({copies.of(url) for url in file["urls"]}) == 1, file["name"]


@pytest.mark.parametrize(
    ("env_id", "split", "options", "source"),
    [
        (
            "agentgym/WebShop-v0",
            "upstream-test",
            {"dataset": "webshop/small", "goals": "synthetic", "tagger": "words"},
            "webshop",
        ),
        ("agentgym/ALFWorld-v0", "valid_seen", {"dataset": "official", "dialect": "game"}, "alfworld"),
    ],
)
def test_whole_copies_are_the_samples(env_id, split, options, source, machine, monkeypatch):
    """Content and order: the ids of tasks are of their content, and a manifest is of all ids."""
    copies = Copies(DATA, games=None, products=None, splits=("valid_seen",))
    done = machine.run("data", "import", source, str(by_hand(copies, source, machine.folder / "downloads")))
    assert done.returncode == 0, errors(done)
    monkeypatch.setenv("AGENTGYM_DATA", str(machine.data))
    monkeypatch.setenv("AGENTGYM_CACHE", str(machine.folder / "cache"))
    found = open_env(env_id, split=split, options=options).tasks.manifest
    monkeypatch.setenv("AGENTGYM_DATA", str(DATA))
    assert found == open_env(env_id, split=split, options=options).tasks.manifest


@pytest.mark.parametrize("generation", ["1", "2", "3"])
def test_a_generation_of_alfworld_is_known_by_its_content(generation, copies, machine):
    """The file's name says nothing: each generation goes to the source that words actions alike."""
    archive = machine.folder / "games.zip"
    archive.write_bytes(copies.alfworld(generation))
    ours, other = ("alfworld", "alfworld-2.1.3") if generation == "1" else ("alfworld-2.1.3", "alfworld")
    refused = machine.run("data", "import", other, str(archive))
    assert (refused.returncode, len(errors(refused))) == (2, 1), refused.stdout + refused.stderr
    assert machine.imported(other) == {}
    taken = machine.run("data", "import", ours, str(archive))
    assert taken.returncode == 0, taken.stderr
    assert machine.run("data", "verify", ours).returncode == 0
