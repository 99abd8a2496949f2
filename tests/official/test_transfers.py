"""Hosts that are bad at sending: what comes is whole, or nothing is there and one line says why."""

import shutil

import pytest

from agentgym.registration import data_source
from tests.official.host import FAULTS, Host, planned
from tests.official.machines import state_of

pytestmark = pytest.mark.assets

LASTING = ("404", "wrong", "longer", "html", "other")
"""Faults that no repetition gets over."""

SETS = ("sotopia", "webshop-small", "searchqa", "musique")


def reference(here, name, copies):
    """Return what a set is when nothing goes wrong."""
    assert here.run("data", "download", name)[0] == 0, here.said
    folder = here.data / data_source(here.table["set"][name]["source"]).folder
    state = state_of(folder)
    shutil.rmtree(here.folder / "box")
    here.host.asked.clear()
    return folder, state


def once(fault, at=0):
    """Return a plan with a fault for a number of requests of each address."""
    return lambda path, attempt: fault if attempt <= at else ""


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault not in LASTING])
def test_a_host_gets_better(fault, here, copies):
    folder, state = reference(here, "sotopia", copies)
    here.host.plan = once(fault)
    assert here.run("data", "download", "sotopia")[0] == 0, here.said
    assert state_of(folder) == state


@pytest.mark.parametrize("fault", LASTING)
def test_a_host_stays_bad(fault, here):
    here.host.plan = lambda path, attempt: fault
    code, _, err = here.run("data", "download", "sotopia")
    assert (code, len(err)) == (2, 1), here.said
    assert not here.data.exists() or not list(here.data.iterdir())
    if fault == "html":
        assert "HTML" in err[0]


@pytest.mark.parametrize("fault", LASTING)
def test_another_mirror_has_the_file(fault, here, copies):
    folder, state = reference(here, "webshop-small", copies)
    here.host.plan = lambda path, attempt: fault if "raw.githubusercontent" in path else ""
    assert here.run("data", "download", "webshop-small")[0] == 0, here.said
    assert state_of(folder) == state
    assert "huggingface.co" in here.said  # it says which it took


@pytest.mark.parametrize("seed", range(6))
def test_faults_at_random(seed, here, copies):
    """Either all is as it should be, or nothing is there; and a better host ends it."""
    name = SETS[seed % len(SETS)]
    folder, state = reference(here, name, copies)
    faults = [fault for fault in FAULTS if fault != "429"]
    here.host.plan = planned(seed, faults)
    code, _, err = here.run("data", "download", name)
    assert (code, len(err)) in ((0, 0), (2, 1)), here.said
    assert state_of(folder) == ({} if code else state)
    here.host.plan = lambda path, attempt: ""
    assert here.run("data", "download", name)[0] == 0, here.said
    assert state_of(folder) == state


def test_a_transfer_goes_on_where_it_stopped(here):
    name = "musique_v1.0.zip"
    here.host.plan = once("drop")
    assert here.run("data", "download", "musique")[0] == 0, here.said
    first, second = (each for each in here.host.asked if "id=1tGd" in each.path)
    start = int(second.headers["range"].removeprefix("bytes=").removesuffix("-"))
    assert 0 < start < here.file(name)["size"] == here.host.sent
    assert second.headers["if-range"].startswith('"')
    assert "range" not in first.headers


def test_another_version_is_not_sewn_on(here):
    """The file changes between two requests: what was there of the old one is given up."""
    here.host.plan = once("other")
    assert here.run("data", "download", "musique")[0] == 0, here.said
    assert here.run("data", "verify", "musique")[0] == 0


def test_a_set_of_which_a_file_was_cut_is_fetched_again(here):
    """Only sizes are looked at: `agentgym data verify` reads every byte."""
    assert here.run("data", "download", "musique")[0] == 0, here.said
    store = here.data / "musique" / "ans.questions"
    whole = store.read_bytes()
    store.write_bytes(whole[:-5])
    assert here.run("data", "download", "musique")[0] == 0, here.said
    assert store.read_bytes() == whole
    here.host.asked.clear()
    assert here.run("data", "download", "musique")[0] == 0, here.said
    assert here.host.asked == []


def test_an_end_without_a_length_is_no_end(here):
    """Of a file with neither size nor digest, an answer without a length may be cut anywhere."""
    lines = b"".join(b'{"question": "%d?", "answer": ["A"], "qid": "q%d"}\n' % (n, n) for n in range(40))
    here.replace("AutoScholarQuery/test.jsonl", lines)
    here.host.plan = lambda path, attempt: "unsized drop"
    code, _, err = here.run("data", "download", "papersearch")
    assert (code, len(err)) == (2, 1), here.said


def test_a_file_of_which_only_the_size_is_known_is_compared_from_then_on(here, copies):
    assert here.run("data", "download", "searchqa")[0] == 0
    name = "nq/test.jsonl"
    assert "sha256" not in here.file(name)
    shutil.rmtree(here.data)
    url = next(iter(here.file(name)["urls"]))
    right = copies.of(f"https:/{url.removeprefix(here.host.url)}")
    here.replace(name, right.replace(b"Which", b"Where").replace(b"which", b"where"))
    code, _, err = here.run("data", "download", "searchqa")
    assert (code, len(err)) == (2, 1), here.said
    assert "came first" in err[0]
    assert not list(here.data.glob("*"))


# ---- tokens ------------------------------------------------------------------------------------------------


@pytest.fixture
def hub(here, copies, monkeypatch):
    """A hub at the host's address, with gated files, and another host that it redirects to."""
    with Host(copies.of, name="localhost") as other:
        here.host.elsewhere = other
        here.host.token, here.host.gated = "hf_secret", lambda path: "pasa-dataset" in path
        for file in here.table["file"]:
            file["urls"] = [
                url.replace(f"{here.host.url}/huggingface.co", "https://huggingface.co")
                for url in file["urls"]
            ]
        monkeypatch.setenv("HF_ENDPOINT", f"{here.host.url}/huggingface.co")
        yield other


def carried(host):
    return [each.path for each in host.asked if "hf_secret" in " ".join(each.headers.values())]


def test_a_gated_file_names_its_terms(hub, here, monkeypatch):
    for token in (None, "hf_other"):
        if token:
            monkeypatch.setenv("HF_TOKEN", token)
        code, _, err = here.run("data", "download", "papersearch")
        assert (code, len(err)) == (2, 1)
        assert "https://huggingface.co/datasets/CarlanLark/pasa-dataset" in err[0]
        assert "HF_TOKEN" in err[0]
    assert hub.asked == []


def test_a_token_opens_a_gated_file(hub, here, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert here.run("data", "download", "papersearch")[0] == 0, here.said
    assert len(carried(here.host)) == len(here.host.asked) > 0
    assert "hf_secret" not in here.said


@pytest.mark.parametrize("fault", ["elsewhere", "redirect"])
def test_a_token_follows_no_redirect_to_another_host(fault, hub, here, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    here.host.plan = lambda path, attempt: fault
    hub.gated = lambda path: False
    here.run("data", "download", "papersearch")
    assert carried(hub) == []
    assert bool(hub.asked) == (fault == "elsewhere")
    assert carried(here.host)


def test_a_token_goes_to_no_other_address(hub, here, monkeypatch):
    """Not to GitHub's files, and not to a mirror that a user names."""
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    for file in here.table["file"]:
        file["urls"] = [url.replace(here.host.url, hub.url) for url in file["urls"]]
    assert here.run("data", "download", "sotopia")[0] == 0
    here.run("data", "download", "papersearch", "--mirror", hub.url, "--only-mirror")
    assert carried(here.host) == carried(hub) == []
    assert hub.asked


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://127.0.0.1:1/x", "same"]
)
def test_a_redirect_leads_nowhere(target, here):
    class Elsewhere:
        url = target

    here.host.elsewhere = here.host if target == "same" else Elsewhere()
    here.host.plan = lambda path, attempt: "elsewhere"
    here.host.loops = target == "same"
    code, _, err = here.run("data", "download", "sotopia")
    assert (code, len(err)) == (2, 1), here.said
    assert not here.data.exists() or not list(here.data.iterdir())


# ---- machines without a network ----------------------------------------------------------------------------


def test_what_another_machine_brings_is_imported(here, copies, monkeypatch):
    """The addresses that are printed, fetched as `wget -i` names them, are all that an import needs."""
    for name in SETS:
        folder, state = reference(here, name, copies)
        code, out, _ = here.run("data", "download", name, "--print-urls")
        assert code == 0
        brought = here.folder / f"brought-{name}"
        brought.mkdir(parents=True)
        for url in out.split():
            path = url.removeprefix(here.host.url)
            content = copies.of(f"https:/{path}")
            place = brought / path.rpartition("/")[2]
            number = len(list(brought.glob(f"{place.name}*")))
            (place if not number else place.with_name(f"{place.name}.{number}")).write_bytes(content)
        here.host.asked.clear()
        source = here.table["set"][name]["source"]
        imports = [["import", name, str(brought)]] if name == source or name == "webshop-small" else []
        for words in (["download", name, "--mirror", str(brought), "--only-mirror"], *imports):
            shutil.rmtree(here.folder / "box", ignore_errors=True)
            assert here.run("data", *words)[0] == 0, here.said
            found = state_of(folder)  # the order of a manifest is that of the files' names in the copy
            assert {**found, "manifest.json": state["manifest.json"]} == state
            assert here.run("data", "verify", source)[0] == 0
        assert here.host.asked == []
