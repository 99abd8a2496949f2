"""Packed runs keep what a model was sent and said where all tasks ship with the package, and only there."""

import json
import lzma
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from agentgym.errors import UsageError
from agentgym.evaluation.log.runfiles import read_run
from agentgym.evaluation.log.transcripts import TRANSCRIPTS_FILE, TranscriptMessage, read_transcripts
from agentgym.evaluation.verify import packed as packing
from agentgym.evaluation.verify.archives import open_run
from agentgym.evaluation.verify.model_check import ModelSample, check_model
from agentgym.evaluation.verify.packed import PackedHeader, pack_run, read_packed, redistributable
from agentgym.evaluation.verify.verification import Verification
from agentgym.registration import ENVIRONMENTS
from tests.evaluation.corridor import ENV_ID
from tests.evaluation.model_runs import ALL, CONSTRAINED, Played, bench


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    torch.set_num_threads(1)
    return bench(tmp_path_factory.mktemp("packed"), CONSTRAINED)


@pytest.fixture
def built_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the tests' environment for one of the package."""
    monkeypatch.setattr(packing, "ENVIRONMENTS", {*ENVIRONMENTS, ENV_ID})


def header_of(path: Path) -> PackedHeader:
    return read_packed(path.read_bytes(), str(path))[0]


def rewritten(path: Path, **fields: object) -> Path:
    """Write a packed run again with other fields in its first line."""
    first, *others = lzma.decompress(path.read_bytes()).decode().split("\n")
    forged = path.with_name(f"forged-{path.name}")
    forged.write_bytes(lzma.compress("\n".join([json.dumps(json.loads(first) | fields), *others]).encode()))
    return forged


@pytest.mark.usefixtures("built_in")
def test_transcripts_come_out_byte_for_byte_and_are_verified(played: Played, tmp_path: Path) -> None:
    path = pack_run(open_run(played.folder), tmp_path)
    assert header_of(path).schema == 2
    run = open_run(path, {"few": played.suite})
    assert (run.folder / TRANSCRIPTS_FILE).read_bytes() == (played.folder / TRANSCRIPTS_FILE).read_bytes()
    assert run.transcripts() == open_run(played.folder).transcripts()
    assert all(step.response for record in run.transcripts().values() for step in record.steps)
    verdict = Verification(run).verdict
    assert (verdict.ok, verdict.badge) == (True, "replayed")
    assert check_model(run, ModelSample(played.model, ALL, 0)).ok
    assert pack_run(open_run(played.folder), tmp_path / "again").read_bytes() == path.read_bytes()


def test_those_of_other_tasks_stay_behind_and_are_refused(
    played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not redistributable(read_run(played.folder).envs[0].env)
    path = pack_run(open_run(played.folder), tmp_path)
    assert (header_of(path).schema, header_of(path).transcripts) == (1, ())
    assert b'transcripts":[' not in lzma.decompress(path.read_bytes())
    run = open_run(path, {"few": played.suite})
    assert (run.has_transcripts, Verification(run).verdict.ok) == (False, True)
    with monkeypatch.context() as built_in:
        built_in.setattr(packing, "redistributable", lambda env: True)
        full = pack_run(open_run(played.folder), tmp_path / "full")
        assert pack_run(open_run(played.folder), tmp_path / "bare", transcripts=False).read_bytes() == (
            path.read_bytes()
        )
    with pytest.raises(UsageError, match="may not be passed on: it shows texts of a data set"):
        open_run(rewritten(full), {"few": played.suite})


@pytest.mark.usefixtures("built_in")
def test_forged_ones_are_refused(played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pack_run(open_run(played.folder), tmp_path)
    lines = header_of(path).transcripts
    suites = {"few": played.suite}
    with pytest.raises(UsageError, match=r"unpacked, transcripts\.jsonl is not what the run's digest is of"):
        open_run(rewritten(path, transcripts=lines[1:]), suites)
    for damaged in ("{}", lines[0] + " ", "half \ud800 pair"):
        with pytest.raises(UsageError, match=r"transcript 1: malformed|half of a surrogate pair"):
            open_run(rewritten(path, transcripts=[damaged]), suites)
    with pytest.raises(UsageError, match="transcripts"):
        open_run(rewritten(path, transcripts=[1]), suites)
    with pytest.raises(UsageError, match="schema 3 is neither 1 nor 2"):
        open_run(rewritten(path, schema=3), suites)
    record = read_transcripts(played.folder)[0]
    (sent, *more), step = record.steps[0].messages, record.steps[0]
    many = replace(step, messages=(TranscriptMessage(sent.role, sent.parts * 1_000), *more))
    swollen = replace(record, steps=(many, *record.steps[1:]))
    assert swollen.length > record.length + 1_000 * len(sent.parts)
    monkeypatch.setattr(packing, "MAX_SAID", record.length + 1_000)
    with pytest.raises(UsageError, match=r"its transcripts have more than [\d,]+ characters"):
        open_run(rewritten(path, transcripts=[swollen.line]), suites)
    assert header_of(pack_run(open_run(played.folder), tmp_path / "long")).schema == 1
    assert asdict(swollen)["texts"] == record.texts


@pytest.mark.usefixtures("built_in")
def test_changed_ones_are_not_packed(played: Played, tmp_path: Path) -> None:
    run = open_run(played.folder)
    changed = replace(run, log=replace(run.log, transcripts_sha256="0" * 64))
    with pytest.raises(UsageError, match=r"transcripts\.jsonl was changed"):
        pack_run(changed, tmp_path)
