"""Archives of runs that are sent in: what is packed, what is refused, and what boards make of them."""

import io
import lzma
import stat
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentgym.errors import UsageError
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.verify.archives import (
    ARCHIVE_SUFFIX,
    CARD_MEMBER,
    CLAIM_MEMBER,
    MEMBERS,
    RUN_MEMBER,
    TRANSCRIPTS_MEMBER,
    open_run,
    origin_of,
    read_archive,
)
from agentgym.evaluation.verify.submission_card import CardFields, fields_of
from agentgym.evaluation.verify.submissions import Submission, Unranked, verify_below
from agentgym.evaluation.verify.submit import (
    PROBLEMS_TOLD,
    _verdict_problems,
    check_submission,
    pack_submission,
)
from agentgym.evaluation.verify.verdicts import Mismatch
from tests.suite_texts import ORACLE, env_table, suite_text, write_suite

AGENT = "examples.own_agent:make"
SAID = CardFields("a@example.org", "Apache-2.0", "nothing: it counts what it has tried")
SUITE = suite_text(
    "sent",
    env_table("agentgym/EZPoints-v0", 3),
    agents=({"name": "least-tried", "kind": AGENT}, ORACLE),
    seed=3,
    floor="",
    oracle="",
)


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a suite, its runs, and their archives."""
    root = tmp_path_factory.mktemp("sent")
    for folder in run_bench(write_suite(root, SUITE), root / "results", transcripts=True):
        pack_submission(open_run(folder), root / "archives", fields=SAID, allow=[AGENT])
    return root


def archive_of(root: Path, agent: str) -> Path:
    (path,) = (root / "archives" / "sent").glob(f"{agent}-*{ARCHIVE_SUFFIX}")
    return path


def problems(path: Path, root: Path) -> tuple[str, ...]:
    found = check_submission(path, {"sent": root / "suites" / "sent.toml"}, allow=[AGENT])
    assert found.ok is not bool(found.problems)
    return found.problems


def test_the_suite_is_found_above_the_archive(sent):
    assert check_submission(archive_of(sent, "oracle"), allow=[AGENT]).problems == ()


def written(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    """Write an archive of any members."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def test_an_archive_without_its_suite_is_not_said_to_replay_otherwise(sent, tmp_path):
    away = tmp_path / archive_of(sent, "oracle").name
    away.write_bytes(archive_of(sent, "oracle").read_bytes())
    (line,) = check_submission(away).problems
    assert line.startswith("cannot be checked here: no suites/")
    assert line.endswith("name the suite file with --suite")


def changed(root: Path, tmp_path: Path, **replaced: bytes | None) -> tuple[str, ...]:
    """Return what is said of an archive with other members."""
    members = read_archive(archive_of(root, "least-tried"))
    names = {"run": RUN_MEMBER, "card": CARD_MEMBER, "claim": CLAIM_MEMBER, "transcripts": TRANSCRIPTS_MEMBER}
    for key, data in replaced.items():
        if data is None:
            del members[names[key]]
        else:
            members[names[key]] = data
    return problems(written(tmp_path / f"x{ARCHIVE_SUFFIX}", members), root)


def test_pack_requires_what_check_requires(sent, tmp_path):
    folder = next(path for path in (sent / "results" / "sent").iterdir() if path.name.startswith("least"))
    with pytest.raises(UsageError, match=r"not re-run, .*: --contact TEXT, --training-data TEXT$"):
        pack_submission(open_run(folder), tmp_path, fields=CardFields(" ", "MIT"), allow=[AGENT])
    assert not list(tmp_path.iterdir())


def test_the_same_run_gives_the_same_bytes(sent, tmp_path):
    for folder in sorted((sent / "results" / "sent").iterdir()):
        again = pack_submission(open_run(folder), tmp_path, fields=SAID, allow=[AGENT])
        assert again.read_bytes() == archive_of(sent, folder.name.rpartition("-")[0]).read_bytes()


def test_archives_that_were_packed_together_have_one_origin_and_nobody_joins_it(sent, tmp_path):
    runs = [open_run(folder) for folder in sorted((sent / "results" / "sent").iterdir())]
    ids = [run.log.record_id for run in runs]
    pair = [pack_submission(run, tmp_path, fields=SAID, together=ids, allow=[AGENT]) for run in runs]
    assert len({origin_of(path, run_id) for path, run_id in zip(pair, ids, strict=True)}) == 1
    assert all(problems(path, sent) == () for path in pair)
    alone = [
        origin_of(archive_of(sent, name), run_id)
        for name, run_id in (("least-tried", ids[0]), ("oracle", ids[1]))
    ]
    assert len({*alone, origin_of(pair[0], ids[0])}) == 3
    # an archive that names the others without being named by them
    assert origin_of(pair[0], "another") != origin_of(pair[0], ids[0])
    joined = pack_submission(
        runs[0], tmp_path / "more", fields=SAID, together=[*ids, "another"], allow=[AGENT]
    )
    assert origin_of(joined, ids[0]) != origin_of(pair[0], ids[0])
    assert {run.path.parent for run in runs} == {sent / "results" / "sent"}
    assert len({origin_of(run.path, run.log.record_id) for run in runs}) == 1


def test_a_whole_archive_has_no_problems(sent):
    assert problems(archive_of(sent, "least-tried"), sent) == ()
    assert problems(archive_of(sent, "oracle"), sent) == ()
    members = read_archive(archive_of(sent, "least-tried"))
    assert set(members) == set(MEMBERS)
    assert fields_of(members[CARD_MEMBER].decode()) == SAID


def test_what_is_missing_is_a_line_each(sent, tmp_path):
    assert changed(sent, tmp_path, card=None) == ("missing: card.md; pack the run again",)
    assert changed(sent, tmp_path, claim=None) == ("missing: verification.json; pack the run again",)
    assert changed(sent, tmp_path, run=None) == ("missing: run.run.xz; pack the run again",)
    (line,) = changed(sent, tmp_path, transcripts=None)
    assert line == "missing: transcripts.jsonl.xz; the run has transcripts, pack it where they are"
    card = read_archive(archive_of(sent, "least-tried"))[CARD_MEMBER]
    silent = card.replace(b"a@example.org", b"").replace(b"Apache-2.0", b"")
    assert changed(sent, tmp_path, card=silent) == (
        "missing: contact in card.md; pack the run with --contact",
        "missing: licence in card.md; pack the run with --licence",
    )


def test_who_plays_by_rule_alone_needs_nobody_to_answer_for_it(sent, tmp_path):
    members = read_archive(archive_of(sent, "oracle"))
    members[CARD_MEMBER] = b"# oracle\n"
    assert problems(written(tmp_path / f"x{ARCHIVE_SUFFIX}", members), sent) == ()


def test_the_first_step_that_does_not_replay_is_named(sent, tmp_path):
    lines = lzma.decompress(read_archive(archive_of(sent, "least-tried"))[RUN_MEMBER]).decode().splitlines()
    assert '"actions":"[' in lines[2]
    before, _, rest = lines[2].partition('"actions":"[')
    first, comma, others = rest.partition(",")
    lines[2] = f'{before}"actions":"[{1 - int(first) if first in "01" else 0}{comma}{others}'
    forged = lzma.compress("".join(f"{line}\n" for line in lines).encode())
    (line,) = changed(sent, tmp_path, run=forged)
    assert line.startswith("does not replay: run.run.xz, episode 2: comes out otherwise at step 1")


def test_claims_and_transcripts_are_compared(sent, tmp_path):
    members = read_archive(archive_of(sent, "least-tried"))
    better = members[CLAIM_MEMBER].replace(b'"replayed"', b'"re-run"')
    assert changed(sent, tmp_path, claim=better) == (
        "verification.json says otherwise than was found here; pack the run again",
    )
    said = lzma.decompress(members[TRANSCRIPTS_MEMBER]).replace(b"EZ", b"ez").replace(b"Card", b"card")
    other = lzma.compress(said + b"{}\n")
    assert all(line.startswith("does not replay: ") for line in changed(sent, tmp_path, transcripts=other))
    (line, *_) = changed(sent, tmp_path, transcripts=b"not xz")
    assert line.startswith("damaged: transcripts.jsonl.xz")


@pytest.mark.parametrize(
    ("places", "named", "more"),
    [
        (range(PROBLEMS_TOLD), PROBLEMS_TOLD, 0),
        (range(PROBLEMS_TOLD + 1), PROBLEMS_TOLD, 1),
        ([3, 3, 4], 2, 1),
    ],
)
def test_so_many_problems_are_named_one_a_place(places, named, more):
    found = [Mismatch("replay", f"episode {place}", f"departs at step {n}") for n, place in enumerate(places)]
    *lines, last = _verdict_problems(SimpleNamespace(problems=found))
    lines += [] if more else [last]
    assert (
        lines == [f"does not replay: {found[list(places).index(n)]}" for n in dict.fromkeys(places)][:named]
    )
    assert more == 0 or last == f"does not replay: and {more} more"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("../card.md", "may not hold"),
        ("/etc/passwd", "may not hold"),
        ("a\\b", "may not hold"),
        ("x/", "may not hold"),
    ],
)
def test_no_other_name_is_read(sent, tmp_path, name, told):
    path = written(tmp_path / f"x{ARCHIVE_SUFFIX}", {name: b""})
    with pytest.raises(UsageError, match=told):
        read_archive(path)
    (line,) = problems(path, sent)
    assert "\n" not in line


def test_bombs_links_and_repeated_names_are_refused(tmp_path):
    bomb = written(tmp_path / "bomb.zip", {CARD_MEMBER: bytes(10_000_000)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(UsageError, match="not a plain file stored as it is"):
        read_archive(bomb)
    with pytest.raises(UsageError, match="has more than 65,536 bytes"):
        read_archive(written(tmp_path / "large.zip", {CARD_MEMBER: bytes(70_000)}))
    link = zipfile.ZipInfo(CARD_MEMBER)
    link.create_system = 3
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(UsageError, match="not a plain file"):
        read_archive(tmp_path / "link.zip")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(CARD_MEMBER, "a")
        archive.filelist.append(archive.filelist[0])  # named twice in the directory
    (tmp_path / "twice.zip").write_bytes(file.getvalue())
    with pytest.raises(UsageError, match="holds a name twice"):
        read_archive(tmp_path / "twice.zip")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not a zip", bytes(100)])
def test_what_is_no_archive_is_one_line(sent, tmp_path, content):
    path = tmp_path / f"x{ARCHIVE_SUFFIX}"
    path.write_bytes(content)
    (line,) = problems(path, sent)
    assert "cannot be read as an archive" in line


def test_a_run_of_official_data_takes_no_transcripts_along(sent, tmp_path, monkeypatch):
    monkeypatch.setattr("agentgym.evaluation.verify.submit.redistributable", lambda env: False)
    (folder,) = (sent / "results" / "sent").glob("oracle-*")
    path = pack_submission(open_run(folder), tmp_path, fields=SAID)
    assert TRANSCRIPTS_MEMBER not in read_archive(path)
    assert problems(path, sent) == ()
    (line,) = problems(archive_of(sent, "oracle"), sent)
    assert line.startswith("may not be passed on: transcripts.jsonl.xz")


def test_boards_read_archives_and_forget_those_that_fail(sent, tmp_path):
    suites = {"sent": sent / "suites" / "sent.toml"}
    found = list(verify_below(sent / "archives", suites=suites, allow=[AGENT]))
    assert [type(each) for each in found] == [Submission, Submission]
    members = read_archive(archive_of(sent, "oracle"))
    members[RUN_MEMBER] = members[RUN_MEMBER][:-20]
    written(tmp_path / f"oracle{ARCHIVE_SUFFIX}", members)
    (left,) = verify_below(tmp_path, suites=suites)
    assert isinstance(left, Unranked)
    assert left.reason.startswith("refused: ")
