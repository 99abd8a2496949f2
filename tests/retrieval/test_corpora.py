"""Corpora: descriptions, readers of files, and records of what was built."""

import bz2
import gzip
import json
import lzma
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.core.types import Passage
from agentgym.errors import MissingDataError, UsageError
from agentgym.retrieval.corpus.corpora import (
    BuiltCorpus,
    CorpusFile,
    CorpusSpec,
    build_corpus,
    file_spec,
    read_spec,
)
from agentgym.retrieval.corpus.passages import PASSAGES, PassageFile

INDEXES = sorted((Path(__file__).parents[2] / "indexes").glob("*.toml"))

ENGINE = {"id": "a", "title": "Engine", "text": "It computes."}
SHIP = {"id": 7, "contents": '"Ship"\nIt sails.\nIt sinks.'}
AS_PASSAGES = [Passage("a", "Engine", "It computes."), Passage("7", "Ship", "It sails.\nIt sinks.")]


def spec_of(reader, *paths, passages=0, **options):
    return CorpusSpec(
        name="things",
        about="things",
        source="nowhere",
        licence="CC0-1.0",
        reader=reader,
        rule="each",
        passages=passages,
        files=tuple(path if isinstance(path, CorpusFile) else CorpusFile(path) for path in paths),
        **options,
    )


def build(tmp_path, reader, *contents, **options):
    """Build a corpus of files with these contents; return the record and the passages."""
    for number, content in enumerate(contents):
        text = content if isinstance(content, str) else "\n".join(map(json.dumps, content))
        (tmp_path / f"{number}.jsonl").write_text(text, encoding="utf-8")
    spec = spec_of(reader, *(f"{number}.jsonl" for number in range(len(contents))), **options)
    built = build_corpus(spec, tmp_path / "built", tmp_path)
    return built, list(PassageFile(tmp_path / "built" / PASSAGES))


def test_documents_are_read_in_both_public_forms(tmp_path):
    built, passages = build(tmp_path, "documents", [ENGINE, SHIP], passages=2)
    assert passages == AS_PASSAGES
    assert (built.count, built.expected, built.deviations) == (2, 2, ())
    assert built.files[0].records == 2
    assert BuiltCorpus.read(tmp_path / "built") == built


def test_an_array_is_read_as_lines_are(tmp_path):
    assert build(tmp_path, "documents", json.dumps([ENGINE, SHIP]))[1] == AS_PASSAGES


def test_documents_without_an_id_are_numbered(tmp_path):
    nameless = [{"title": "T", "text": str(number)} for number in range(3)]
    assert [passage.id for passage in build(tmp_path, "documents", nameless)[1]] == ["0", "1", "2"]


def test_ids_of_beir_are_ids(tmp_path):
    assert build(tmp_path, "documents", [{"_id": "b1", "title": "T", "text": "x"}])[1][0].id == "b1"


def test_distinct_documents_are_taken_once(tmp_path):
    passages = build(tmp_path, "distinct", [ENGINE, SHIP], [ENGINE, {"title": "Engine", "text": "Other."}])[1]
    assert [(passage.id, passage.title) for passage in passages] == [
        ("0", "Engine"),
        ("1", "Ship"),
        ("2", "Engine"),
    ]


def test_passages_of_questions_are_taken_once(tmp_path):
    first = {"context": [["A", ["One. ", " Two."]], ["B", ["Three."]]]}
    second = {"context": [["B", ["Three."]], ["B", ["Four."]]]}
    assert build(tmp_path, "hotpotqa", [first, second])[1] == [
        Passage("0", "A", "One. Two."),
        Passage("1", "B", "Three."),
        Passage("2", "B", "Four."),
    ]


def test_paragraphs_of_musique_are_taken_once(tmp_path):
    paragraphs = [{"title": "A", "paragraph_text": "x"}, {"title": "A", "paragraph_text": "x"}]
    assert build(tmp_path, "musique", [{"paragraphs": paragraphs}])[1] == [Passage("0", "A", "x")]


def test_articles_of_sentences_and_papers(tmp_path):
    articles = [{"id": "12", "title": "A", "sentences": ["One.", "Two."], "mentions": []}]
    assert build(tmp_path, "sentences", articles)[1] == [Passage("12", "A", "One. Two.")]
    papers = [{"id": "x", "title": "A\n paper", "abstract": "It is.", "year": 1}, {"id": 2, "title": "B"}]
    (tmp_path / "built" / "corpus.json").unlink()
    (tmp_path / "built" / PASSAGES).unlink()
    assert build(tmp_path, "papers", papers)[1] == [Passage("x", "A paper", "It is."), Passage("2", "B", "")]


@pytest.mark.parametrize(
    ("suffix", "pack"), [("gz", gzip.compress), ("xz", lzma.compress), ("bz2", bz2.compress)]
)
def test_files_may_be_packed(tmp_path, suffix, pack):
    whole = pack((json.dumps(ENGINE) + "\n" + json.dumps(SHIP) + "\n").encode() * 1)
    path = tmp_path / f"things.jsonl.{suffix}"
    path.write_bytes(whole)
    # by the name of the packed file, and by that of what is in it
    for number, name in enumerate((path.name, "things.jsonl")):
        built = build_corpus(spec_of("documents", name), tmp_path / str(number), tmp_path)
        assert built.count == 2
    path.write_bytes(whole[:-9])
    with pytest.raises(UsageError, match="cannot read"):
        build_corpus(spec_of("documents", path.name), tmp_path / "cut", tmp_path)
    path.write_bytes(b"{}" + whole)
    with pytest.raises(UsageError, match=r"things\.jsonl\.\w+:1"):
        build_corpus(spec_of("documents", path.name), tmp_path / "cut", tmp_path)
    assert not list((tmp_path / "cut").iterdir())


def test_the_published_archive_may_lie_in_a_file_s_place(tmp_path):
    files = [CorpusFile(f"{name}.jsonl", records=1, archive="all.zip") for name in ("one", "two")]
    spec = spec_of("documents", *files)
    with pytest.raises(MissingDataError, match=r"needs .*one\.jsonl or .*all\.zip: get it from nowhere"):
        build_corpus(spec, tmp_path / "built", tmp_path)
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for file, record in zip(files, (ENGINE, SHIP), strict=True):
            archive.writestr(f"data/{file.path}", json.dumps(record))
            archive.writestr(f"__MACOSX/data/._{file.path}", "")
    built = build_corpus(spec, tmp_path / "built", tmp_path)
    assert list(PassageFile(tmp_path / "built" / PASSAGES)) == AS_PASSAGES
    assert (built.deviations, [file.records for file in built.files]) == ((), [1, 1])


def test_what_deviates_is_recorded(tmp_path):
    (tmp_path / "f.jsonl").write_text(json.dumps(ENGINE), encoding="utf-8")
    spec = spec_of("documents", CorpusFile("f.jsonl", records=3, sha256="0" * 64), passages=1_000)
    deviations = BuiltCorpus.read(
        (build_corpus(spec, tmp_path / "b", tmp_path), tmp_path / "b")[1]
    ).deviations
    assert deviations[:2] == (
        "1 passages, not the 1,000 expected",
        "f.jsonl holds 1 records, not the 3 expected",
    )
    assert deviations[2].startswith("f.jsonl has the sha256 ")


def test_what_is_built_stays_and_another_corpus_is_refused(tmp_path):
    built, _ = build(tmp_path, "documents", [ENGINE])
    before = (tmp_path / "built" / PASSAGES).stat().st_mtime_ns
    (tmp_path / "0.jsonl").unlink()
    assert build_corpus(spec_of("documents", "0.jsonl"), tmp_path / "built", tmp_path) == built
    assert (tmp_path / "built" / PASSAGES).stat().st_mtime_ns == before
    with pytest.raises(UsageError, match="holds another corpus, 'things': delete it"):
        build_corpus(replace(spec_of("documents", "x"), name="others"), tmp_path / "built", tmp_path)


@pytest.mark.parametrize(
    ("reader", "record", "problem"),
    [
        ("documents", {"id": 1}, "texts 'title' and 'text', or 'contents'"),
        ("documents", {"id": [1], "contents": "x"}, "the id of a document is a text or a whole number"),
        ("documents", {"id": 1, "title": 3, "text": "x"}, "texts 'title' and 'text'"),
        ("documents", {"id": 1, "title": "T", "text": "x" * ((1 << 20) + 1)}, "at most 1,048,576 characters"),
        ("hotpotqa", {"id": 1}, "no 'context'"),
        ("hotpotqa", {"context": [["A"]]}, "not enough values to unpack"),
        ("hotpotqa", {"context": [["A", [1]]]}, "no attribute 'strip'"),
        ("musique", {"paragraphs": [{"title": "A", "paragraph_text": None}]}, "title and text of a passage"),
        ("sentences", {"id": 1, "title": "A", "sentences": None}, "not iterable"),
        ("papers", {"id": None, "title": "A"}, "the id of a paper"),
        ("papers", {"id": 1, "title": "A", "abstract": ["x"]}, "title and text of a passage"),
    ],
)
def test_what_is_no_record_is_an_error_that_names_the_line(tmp_path, reader, record, problem):
    with pytest.raises(UsageError) as raised:
        build(tmp_path, reader, json.dumps(record))
    assert str(raised.value).startswith(f"{tmp_path / '0.jsonl'}:1: no record of {reader!r}: ")
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "has no passages"),
        ("<html>", "expected a JSON object"),
        ('{"id": 1, "title": "T"', "not whole JSON"),
        ('{"id": 1, "contents": "a"}\n{"id": 1, "contents": "b"}', "two documents have the id '1'"),
        ('{"id": 1, "contents": "\\ud800"}', "lone surrogate"),
    ],
)
def test_what_is_no_corpus_is_an_error(tmp_path, content, problem):
    with pytest.raises(UsageError, match=problem):
        build(tmp_path, "documents", content)
    assert not (tmp_path / "built" / PASSAGES).exists()


def test_a_missing_file_says_where_it_can_be_had(tmp_path):
    with pytest.raises(
        MissingDataError, match=r"needs .*x\.jsonl: get it from nowhere, or set AGENTGYM_DATA"
    ):
        build_corpus(spec_of("documents", "x.jsonl"), tmp_path / "built", tmp_path)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("", "'name' is missing"),
        ('reader = "documens"', "unknown reader 'documens' .*choose one of documents"),
        ('reader = "documents"', "a corpus of files needs"),
        ('folder = "../x"', "leads out of the data directory"),
        ('name = "a/b"', "is not the name of a folder"),
        ("passages = '3'", "expected an integer"),
        ("pasages = 3", "did you mean 'passages'"),
        ("[index]\nengin = 'bm25'", "did you mean 'engine'"),
    ],
)
def test_descriptions_are_strict(tmp_path, change, problem):
    table = {
        "name": '"n"',
        "about": '""',
        "source": '""',
        "licence": '""',
        "reader": '"a:b"',
        "rule": '""',
        "passages": 1,
    }
    lines = [f"{key} = {value}" for key, value in table.items() if not change.startswith(f"{key} =")]
    (tmp_path / "c.toml").write_text("\n".join([*lines[not change :], change]), encoding="utf-8")
    with pytest.raises(UsageError, match=problem):
        read_spec(tmp_path / "c.toml")


def test_readers_are_functions_of_installed_packages_only(tmp_path):
    (tmp_path / "own_reader.py").write_text("raise SystemExit", encoding="utf-8")
    with pytest.raises(UsageError, match="is not imported"):
        build_corpus(spec_of("own_reader:passages"), tmp_path / "built", tmp_path)


@pytest.mark.parametrize("path", INDEXES, ids=lambda path: path.stem)
def test_the_descriptions_of_the_checkout_are_whole(path):
    spec = read_spec(path)
    assert spec.name == path.stem
    assert spec.index.engine == "bm25"
    assert spec.index.analyser == "lucene-english-porter/2"


def test_the_names_of_corpora_are_their_own():
    names = [name for path in INDEXES for spec in [read_spec(path)] for name in (spec.name, *spec.also)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "path", [path for path in INDEXES if "builtin" in path.stem], ids=lambda path: path.stem
)
def test_built_in_worlds_are_corpora(tmp_path, path):
    assert build_corpus(read_spec(path), tmp_path / "built", tmp_path).deviations == ()


@pytest.mark.assets
@pytest.mark.parametrize(
    "name",
    [
        "hotpotqa-sample",
        "twowiki-sample",
        "twowiki-sample-distractors",
        "musique-sample",
        "ieee-vis",
        "webshop-sample",
    ],
)
def test_samples_are_as_described(tmp_path, name):
    spec = next(spec for path in INDEXES if (spec := read_spec(path)).name == name)
    built = build_corpus(spec, tmp_path / "built", Path(os.environ["AGENTGYM_DATA"]))
    assert (built.count, built.deviations) == (spec.passages, ())


def test_a_file_describes_itself(tmp_path):
    path = tmp_path / "own.things.jsonl"
    path.write_text(json.dumps(ENGINE), encoding="utf-8")
    spec = file_spec(path)
    assert (spec.name, spec.passages) == ("own", 0)
    assert build_corpus(spec, tmp_path / "built", tmp_path / "nowhere").deviations == ()
