"""Corpora and queries of others: readers, the importer, and what is found in the data directory."""

import json
from pathlib import Path

import numpy as np
import pytest

from agentgym import MissingDataError, UsageError
from agentgym.checking.interface import check_oracle_wins
from agentgym.data.importing import find_damage, import_data, is_present, read_manifest
from agentgym.data.recordfile import RecordWriter
from agentgym.envs.papersearch.data.citations import CITATIONS, CitationGraph, open_citations
from agentgym.envs.papersearch.data.corpus import corpus_in_memory, open_corpus
from agentgym.envs.papersearch.data.importer import open_set, sets_in
from agentgym.envs.papersearch.data.readers import read_papers, read_topics, write_corpus
from agentgym.envs.papersearch.env import PaperSearchEnv
from agentgym.envs.papersearch.suite import PAPERSEARCH
from agentgym.envs.papersearch.topics import Topic

ARXIV = [
    {
        "id": "1706.00001v2",
        "title": "Attention to  apples",
        "abstract": "We\nlook at fruit.",
        "date": "2017-06-12",
    },
    {
        "id": "1801.00002",
        "title": "Pears",
        "abstract": None,
        "references": ["1706.00001v2", "nobody", "1801.00002"],
    },
    {"id": "1912.00003v1", "title": "Apple pie", "abstract": "Baked.", "year": 2019},
    {"id": "2001.00004", "title": "Late apples", "abstract": "Cold."},
]
EDGES = [
    {"citing": "1912.00003v1", "cited": "1706.00001v2"},
    {"citing": "1912.00003v1", "cited": "1801.00002"},
    {"citing": "1912.00003v1", "cited": "1706.00001v2"},
    {"citing": "1801.00002", "cited": "1706.00001"},
    {"citing": "2001.00004", "cited": "1912.00003v1"},
    {"citing": "nobody", "cited": "1912.00003v1"},
]
QUERIES = [
    {
        "question": "Which works are about apples?",
        "answer": ["Attention to apples", "Apple pie"],
        "answer_arxiv_id": ["1912.00003", "1706.00001"],
        "source_meta": {"published_time": "20191231"},
        "qid": "AutoScholarQuery_dev_0",
    },
    {
        "question": "Anything on pears?",
        "answer": ["Pears"],
        "answer_arxiv_id": ["1801.00002"],
        "qid": "second",
    },
    {"question": "Nothing?", "answer": [], "answer_arxiv_id": [], "qid": "third"},
]


def write_lines(path, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture
def upstream(tmp_path):
    """Return a folder as PaSa's users have it."""
    folder = tmp_path / "upstream"
    write_lines(folder / "papers.jsonl", ARXIV)
    write_lines(folder / "edges.jsonl", EDGES)
    write_lines(folder / "AutoScholarQuery" / "dev.jsonl", QUERIES)
    write_lines(folder / "AutoScholarQuery_test.jsonl", QUERIES[:1])
    write_lines(folder / "RealScholarQuery" / "test.jsonl", [QUERIES[1] | {"qid": None}])
    return folder


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Return the data directory, which is empty."""
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "data"


def unwatched(done, total):
    assert 0 <= done <= total


def check_arxiv(corpus):
    assert [corpus.paper(n).title for n in range(4)] == [
        "Attention to apples",
        "Pears",
        "Apple pie",
        "Late apples",
    ]
    assert corpus.paper(0).text == "We look at fruit."
    graph = corpus.graph
    assert graph.dates.tolist() == [20170612, 20180100, 20190000, 20200100]
    assert graph.has_abstract.tolist() == [True, False, True, True]
    assert [graph.cited.row(n).tolist() for n in range(4)] == [[], [0], [0, 1], [2]]
    assert [graph.citing.row(n).tolist() for n in range(4)] == [[2, 1], [2], [3], []]
    assert corpus.number_of("1912.00003v1") == 2
    assert corpus.number_of("1912.00003") == 2
    assert corpus.number_of("1912.0000") is None


def test_a_corpus_is_read_written_and_mapped(upstream, tmp_path):
    read = []
    assert write_corpus(upstream / "papers.jsonl", upstream / "edges.jsonl", tmp_path / "c", read.append) == 4
    assert read == sorted(read)
    corpus = open_corpus(tmp_path / "c")
    check_arxiv(corpus)
    assert not corpus.graph.dates.flags.owndata, "mapped, not read"
    without = corpus_in_memory(list(read_papers(upstream / "papers.jsonl")))
    assert without.graph.cited.row(1).tolist() == [0]
    assert without.sha256 != corpus.sha256 == open_corpus(tmp_path / "c").sha256


def test_queries_are_read_with_versions_dates_and_ids(upstream):
    assert list(read_topics(upstream / "AutoScholarQuery" / "dev.jsonl")) == [
        (
            "AutoScholarQuery_dev_0",
            Topic("Which works are about apples?", ("1706.00001", "1912.00003"), 20191231),
        ),
        ("second", Topic("Anything on pears?", ("1801.00002",))),
    ]
    ((name, topic),) = read_topics(upstream / "RealScholarQuery" / "test.jsonl")
    assert (name, topic.date) == ("test#0", 0)


def test_an_import_brings_all_sets(upstream, data):
    entries = import_data(PAPERSEARCH, upstream, progress=unwatched)
    assert {name: entry.records for name, entry in entries.items()} == {
        "papers/passages.records": 4,
        "papers/citations.records": 4,
        "queries/AutoScholarQuery_dev.jsonl": 2,
        "queries/AutoScholarQuery_test.jsonl": 1,
        "queries/RealScholarQuery_test.jsonl": 1,
    }
    assert list(find_damage(PAPERSEARCH, progress=unwatched)) == []
    assert [is_present(PAPERSEARCH, name) for name in PAPERSEARCH.sets] == [False, True, True]
    check_arxiv(open_set("papersearch/autoscholar").corpus)
    env = PaperSearchEnv(dataset="papersearch/autoscholar", split="dev")
    _, info = env.reset(options={"task": "AutoScholarQuery_dev_0"})
    assert info["goal"] == "Which works are about apples?"
    info = env.step("search[apple]")[4]
    assert info["won"], "both versions count as the papers asked for, and the later one is not found"
    check_oracle_wins(lambda: env)  # who knows the papers by ids without versions
    assert len(PaperSearchEnv(dataset="papersearch/realscholar", split="test").tasks) == 1
    with pytest.raises(UsageError, match="choose one of dev, test"):
        PaperSearchEnv(dataset="papersearch/autoscholar", split="train")
    with (data / "papersearch" / "papers" / CITATIONS).open("r+b") as file:
        file.seek(30)
        file.write(b"x")
    assert "is not what was imported" in next(iter(find_damage(PAPERSEARCH, progress=unwatched)))


def test_a_later_import_keeps_what_it_does_not_bring(upstream, data, tmp_path):
    import_data(PAPERSEARCH, upstream, progress=unwatched)
    write_lines(tmp_path / "vis" / "ieee_vis_papers.jsonl", conference())
    import_data(PAPERSEARCH, tmp_path / "vis", progress=unwatched)
    assert sets_in(data / "papersearch") == {"ieee-vis", "autoscholar", "realscholar"}
    assert "papers/passages.records" in read_manifest(PAPERSEARCH)
    with pytest.raises(UsageError, match="has been imported before"):
        import_data(PAPERSEARCH, data / "papersearch", progress=unwatched)


def test_files_are_used_where_they_lie(upstream, data):
    """Imported into the cache, once for as long as they stay the same."""
    env = PaperSearchEnv(dataset=f"{upstream}/autoscholar", split="test")
    check_arxiv(env.world.corpus)
    assert open_set(str(upstream / "autoscholar")).corpus.sha256 == env.world.corpus.sha256
    with pytest.raises(UsageError, match="holds the sets autoscholar, realscholar: append /SET"):
        open_set(str(upstream))
    assert not data.exists()


def test_what_is_missing_is_named(upstream, data, tmp_path):
    with pytest.raises(MissingDataError, match="agentgym data import papersearch PATH"):
        PaperSearchEnv(dataset="papersearch/ieee-vis")
    (upstream / "papers.jsonl").rename(tmp_path / "elsewhere")
    import_data(PAPERSEARCH, upstream, progress=unwatched)
    for name, wanted in (("autoscholar", "papers.jsonl"), ("ieee-vis", "ieee_vis_papers.jsonl")):
        with pytest.raises(MissingDataError, match=f"on a folder with {wanted}") as caught:
            PaperSearchEnv(dataset=f"papersearch/{name}", split="test")
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match=r"holds none of .*papers.jsonl"):
        import_data(PAPERSEARCH, tmp_path / "cache", progress=unwatched)
    with pytest.raises(MissingDataError, match="no papers at 'nowhere'"):
        PaperSearchEnv(dataset="nowhere")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"title": "No id"}', "id is a string"),
        ('{"id": " "}', "an id that is not empty"),
        ('{"id": true}', "id is a string"),
        ('{"id": "a", "title": []}', "title is a string"),
        ('{"id": "a", "references": "b"}', "references is a list"),
        ('{"id": "a", "references": [["b"]]}', "references is a list"),
        ('{"id": "a"}{"id": "a"}', "two papers have the id 'a'"),
        ('["a"]', "expected"),
        ('{"id": "a"', "not whole JSON"),
        ("[" * 100_000, "expected a JSON object"),
    ],
)
def test_a_broken_file_of_papers_is_one_line(line, why, tmp_path):
    path = tmp_path / "papers.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(UsageError, match=why) as caught:
        write_corpus(path, None, tmp_path / "corpus")
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"answer_arxiv_id": ["a"]}', "question is a string"),
        ('{"question": "?", "answer_arxiv_id": "a"}', "answer_arxiv_id is a list"),
        ('{"question": "?", "answer_arxiv_id": [1]}', "answer_arxiv_id is a list"),
        ('{"question": "?", "answer_arxiv_id": ["a"], "qid": {}}', "qid is a string"),
    ],
)
def test_a_broken_file_of_queries_is_one_line(line, why, tmp_path):
    (tmp_path / "q.jsonl").write_text(line + "\n")
    with pytest.raises(UsageError, match=why):
        list(read_topics(tmp_path / "q.jsonl"))


def test_texts_that_cannot_be_written_are_read_all_the_same(tmp_path):
    path = write_lines(
        tmp_path / "p.jsonl", [{"id": "a\ud800", "title": "x\u2028y\0z", "abstract": "\udfff"}]
    )
    (paper,) = read_papers(path)
    assert paper[:3] == ("a?", "x y\0z", "?")


def test_a_file_of_something_else_is_no_corpus(tmp_path):
    with RecordWriter(tmp_path / CITATIONS) as writer:
        writer.finish({"dates": np.zeros(1)}, {})
    with pytest.raises(UsageError, match="not a store of citations of this version"):
        open_citations(tmp_path / CITATIONS)
    with pytest.raises(UsageError, match="cannot open"):
        open_corpus(tmp_path / "nowhere")


def test_a_graph_is_written_and_mapped_alike(tmp_path):
    rng = np.random.Generator(np.random.PCG64(0))
    edges = rng.integers(50, size=(400, 2))
    dates = rng.integers(1990, 2020, 50) * 10_000
    graph = CitationGraph.of(map(str, range(50)), dates, np.ones(50, np.bool_), edges)
    graph.write(tmp_path / CITATIONS)
    mapped, digest = open_citations(tmp_path / CITATIONS)
    assert digest == graph.sha256() == mapped.sha256()
    for number in range(50):
        cited = [target for owner, target in edges.tolist() if owner == number]
        assert mapped.cited.row(number).tolist() == cited
        citing = [owner for owner, target in edges.tolist() if target == number]
        assert mapped.citing.row(number).tolist() == sorted(citing, key=lambda owner: (-dates[owner], owner))
        assert mapped.number_of(str(number)) == number
    with pytest.raises(UsageError, match="papers 1 and 2 have one id"):
        CitationGraph.of(["a", "b", "b"], [0, 0, 0], [True] * 3, [])


# ---- a conference's papers -----------------------------------------------------------------------------


def conference():
    """Return papers, one a year, each of which cites the six before it."""
    return [
        {
            "id": f"v{n}", "title": f"Chart number {n}", "abstract": "Bars.", "year": 2000 + n,
            "references": [f"v{m}" for m in range(max(0, n - 6), n)] + ["elsewhere"],
        }
        for n in range(40)
    ]  # fmt: skip


def test_papers_with_enough_references_are_tasks(tmp_path, data):
    papers = conference()
    papers[30]["references"] += ["v31", "v30"]  # later, and itself
    write_lines(tmp_path / "vis" / "ieee_vis_papers.jsonl", papers)
    sets = {
        split: PaperSearchEnv(dataset=str(tmp_path / "vis"), split=split)
        for split in ("train", "valid", "test")
    }
    tasks = {task.source_id: task.content for env in sets.values() for task in env.tasks}
    assert len(tasks) == sum(len(env.tasks) for env in sets.values()) == 35
    assert tasks["v30"] == Topic("Chart number 30", tuple(f"v{n}" for n in range(24, 30)), 20300000, ("v30",))
    env = next(env for env in sets.values() if "v20" in env.tasks)
    env.reset(options={"task": "v20"})
    env.step("search[chart number 20]\nsearch[chart]")
    env.step("\n".join(f"expand[{env.world.corpus.paper(n).id}]" for n in list(env.pool.scores)[:5]))
    assert env.pool.scores
    assert max(env.pool.scores) < 20, "neither the paper itself nor anything later is found"


@pytest.mark.assets
def test_the_conference_that_is_at_hand():
    env = PaperSearchEnv(dataset="papersearch/ieee-vis", split="test")
    assert (len(env.world.corpus), len(env.world.corpus.graph.cited.papers)) == (2_752, 9_993)
    assert sum(len(env.world.topics(split)) for split in ("train", "valid", "test")) == 909
    env.tasks.verify()


@pytest.mark.assets
def test_the_queries_that_are_at_hand_are_read(tmp_path, monkeypatch):
    import os

    folder = Path(os.environ["AGENTGYM_DATA"]) / "papersearch"
    for split in ("dev", "test"):
        topics = [topic for _, topic in read_topics(folder / f"AutoScholarQuery_{split}.jsonl")]
        assert len(topics) == 1_000
        assert all(topic.date > 2015_00_00 and topic.gold for topic in topics)
