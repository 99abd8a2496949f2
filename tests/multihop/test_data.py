"""Official question sets, imported from made-up files of their forms."""

from itertools import pairwise

import pytest

from agentgym.cli import main
from agentgym.core.types import Passage
from agentgym.data.importing import find_damage, import_data, is_present, read_manifest
from agentgym.envs.multihop.data import importer
from agentgym.envs.multihop.data.importer import open_questions
from agentgym.envs.multihop.data.questions import StoredQuestion, SubQuestion
from agentgym.envs.multihop.data.questionstore import QuestionStoreWriter, open_store
from agentgym.envs.multihop.data.records import join_sentences
from agentgym.envs.multihop.env import HotpotQAEnv
from agentgym.envs.multihop.scoring import Evidence
from agentgym.envs.multihop.sources import HOTPOTQA, MUSIQUE, SEARCHQA, SOURCES, TWOWIKI
from agentgym.errors import MissingDataError, UsageError
from agentgym.retrieval.corpus.passages import PassageList
from agentgym.retrieval.searcher import search_in_memory
from tests.multihop import copies
from tests.multihop.copies import DEV, TRAIN


def quiet(done, total):
    pass


pytestmark = pytest.mark.usefixtures("own_places")


# ---- HotpotQA ----------------------------------------------------------------------------------------


def test_hotpotqa_is_imported(hotpotqa):
    entries = import_data(HOTPOTQA, hotpotqa, progress=quiet)
    assert {name: entry.records for name, entry in entries.items()} == {
        "distractor.questions": 3,
        "distractor.passages": 4,
    }
    assert list(find_damage(HOTPOTQA, progress=quiet)) == []
    assert is_present(HOTPOTQA, "distractor")
    assert not is_present(HOTPOTQA, "fullwiki")
    store = open_questions("hotpotqa/distractor")
    assert store.splits == {"dev": 1, "train": 2}
    assert len(store) == 3
    question = store.question("dev", 0)
    assert question._replace(id="") == StoredQuestion(
        id="",
        source_id="h1",
        question="Who is mayor where Ada Moor was born?",
        answer="Bo Lind",
        type="bridge",
        level="hard",
        passages=(0, 1, 2),
        supporting=(1, 2),
        facts=(("Ada Moor", 1), ("Ulm Vale", 1)),
    )
    assert question.gold_titles == {"Ada Moor", "Ulm Vale"}
    moor = "Ada Moor is a potter. She was born in Ulm Vale. She likes rain."
    assert store.passages[1] == Passage("1", "Ada Moor", moor)
    assert store.sentences(1) == ("Ada Moor is a potter.", "She was born in Ulm Vale.", "She likes rain.")
    # two passages of one title are two; both bear the title of a supporting fact
    assert store.question("train", 0).passages == store.question("train", 0).supporting == (2, 3)
    assert [passage.title for passage in store.passages] == ["Bo Lind", "Ada Moor", "Ulm Vale", "Ulm Vale"]


def test_questions_are_found_by_id_and_source_id(hotpotqa):
    import_data(HOTPOTQA, hotpotqa, progress=quiet)
    store = open_questions("hotpotqa/distractor")
    for split in store.splits:
        for index, question in enumerate(store.questions(split)):
            assert store.index_of(split, question.id) == store.index_of(split, question.source_id) == index
    assert store.index_of("dev", "t1") is store.index_of("train", "") is None
    with pytest.raises(IndexError, match=r"split 'dev' of distractor has 1 questions, none at 1"):
        store.question("dev", 1)


def test_the_order_of_files_does_not_matter(hotpotqa, tmp_path):
    stores = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        order = [TRAIN, DEV] if name == "one" else [DEV, TRAIN]
        for file in order:
            (tmp_path / name / file).write_bytes((hotpotqa / file).read_bytes())
        stores.append(open_questions(str(tmp_path / name)))
    assert stores[0].sha256 == stores[1].sha256
    assert stores[0].passages.sha256 == stores[1].passages.sha256


def test_the_full_wiki_setting_is_a_set_of_its_own(hotpotqa):
    retrieved = copies.hotpot(context=[copies.OTHER_VALE, copies.MOOR])
    copies.write(hotpotqa / "hotpot_dev_fullwiki_v1.json", [retrieved])
    import_data(HOTPOTQA, hotpotqa, progress=quiet)
    distractor, fullwiki = (open_questions(f"hotpotqa/{name}") for name in ("distractor", "fullwiki"))
    assert fullwiki.splits == {"dev": 1}
    assert len(fullwiki.passages) == 2
    assert distractor.question("dev", 0).id != fullwiki.question("dev", 0).id  # other passages, another task
    assert distractor.question("dev", 0).source_id == fullwiki.question("dev", 0).source_id


def test_a_later_import_keeps_the_other_sets(hotpotqa, tmp_path):
    import_data(HOTPOTQA, hotpotqa, progress=quiet)
    copies.write(tmp_path / "more" / "hotpot_dev_fullwiki_v1.json", [copies.hotpot()])
    import_data(HOTPOTQA, tmp_path / "more", progress=quiet)
    assert sorted(read_manifest(HOTPOTQA)) == [
        f"{name}.{kind}" for name in ("distractor", "fullwiki") for kind in ("passages", "questions")
    ]
    assert list(find_damage(HOTPOTQA, progress=quiet)) == []
    with pytest.raises(UsageError, match="has been imported before: name a copy of the upstream data"):
        import_data(HOTPOTQA, tmp_path / "data" / "hotpotqa", progress=quiet)


# ---- splits and duplicates ---------------------------------------------------------------------------


def test_splits_share_no_content(hotpotqa):
    same = copies.hotpot("t3")  # the question of dev, its passages included
    copies.write(hotpotqa / TRAIN, [same, copies.hotpot("t4", context=[copies.VALE])])
    store = open_questions(str(hotpotqa))
    assert store.splits == {"dev": 1, "train": 1}
    assert store.left_out == {"train": 1}
    ids = [{question.id for question in store.questions(split)} for split in store.splits]
    assert all(not a & b for a, b in pairwise(ids))
    store.verify()


def test_duplicates_of_a_split_are_numbered(copy):
    copies.write(copy / DEV, [copies.hotpot("h1"), copies.hotpot("h2"), copies.hotpot("h3")])
    store = open_questions(str(copy))
    first, second, third = store.questions("dev")
    assert (second.id, third.id) == (f"{first.id}-2", f"{first.id}-3")
    assert store.index_of("dev", third.id) == 2
    store.verify()


def test_one_id_for_two_questions_is_refused(copy):
    copies.write(copy / DEV, [copies.hotpot("h1"), copies.hotpot("h1", "Another one?")])
    with pytest.raises(UsageError, match="two questions of split 'dev' have the id 'h1': remove one"):
        open_questions(str(copy))


def test_verify_notices_a_changed_question(tmp_path):
    passages = PassageList(())
    with QuestionStoreWriter(tmp_path / "x.questions") as writer:
        writer.begin_split("dev")
        writer.add(StoredQuestion("0" * 32, "s", "Which?", "this"))
        writer.finish("x", passages)
    store = open_store(tmp_path / "x.questions")
    with pytest.raises(UsageError, match="s is not the question its id says; import again"):
        store.verify()


# ---- 2WikiMultihopQA ---------------------------------------------------------------------------------


@pytest.fixture
def wiki(copy):
    folder = copy / "data_ids_april7"
    copies.write(folder / "dev.json", [copies.twowiki()])
    plain = copies.twowiki("w2", answer="no", evidences=[], evidences_id=[])
    del plain["answer_id"]
    copies.write(folder / "train.json", [plain])
    unanswered = copies.twowiki("w3", context=[copies.OTHER_VALE])
    for key in ("answer", "answer_id", "supporting_facts", "evidences", "evidences_id"):
        del unanswered[key]
    copies.write(folder / "test.json", [unanswered])
    copies.write(folder / "id_aliases.json", copies.ALIASES)
    return copy


def test_twowiki_is_imported_with_names_of_entities(wiki):
    import_data(TWOWIKI, wiki, progress=quiet)
    store = open_questions("twowiki/official")
    assert store.splits == {"dev": 1, "train": 1}
    question = store.question("dev", 0)
    assert question.aliases == ("Lindian", "Mr Lind")
    assert question.evidences == (
        Evidence(("Ada Moor",), "place of birth", ("Ulm Vale", "Ulm")),
        Evidence(("Ulm Vale", "Ulm"), "mayor", ("Bo Lind", "Lindian", "Mr Lind")),
    )
    assert question.level == ""
    assert store.question("train", 0).aliases == store.question("train", 0).evidences == ()
    # the passages of the test set count in the union
    assert [passage.title for passage in store.passages].count("Ulm Vale") == 2
    assert len(store.passages) == 4


def test_names_of_entities_must_be_there(wiki):
    (wiki / "data_ids_april7" / "id_aliases.json").unlink()
    with pytest.raises(UsageError, match=r"dev\.json:1: field 'answer_id': .*no id_aliases\.json beside"):
        import_data(TWOWIKI, wiki, progress=quiet)


# ---- MuSiQue -----------------------------------------------------------------------------------------


def test_musique_is_imported(copy):
    dev = [copies.musique(), copies.musique("3hop1__1_2_3", question="Which other one?")]
    copies.write(copy / "data" / "musique_ans_v1.0_dev.jsonl", dev)
    twin = copies.musique(answerable=False)
    twin["paragraphs"][2]["paragraph_text"] = "Ulm Vale is a mill."
    copies.write(copy / "data" / "musique_full_v1.0_dev.jsonl", [copies.musique(), twin])
    test = copies.musique("2hop__8_9")
    test["paragraphs"][0]["title"] = "Bo Lindgren"
    for key in ("answer", "answer_aliases", "answerable", "question_decomposition"):
        del test[key]
    copies.write(copy / "data" / "musique_ans_v1.0_test.jsonl", [test])
    import_data(MUSIQUE, copy, progress=quiet)
    store = open_questions("musique/ans")
    assert store.splits == {"dev": 2}  # the answerable ones of MuSiQue-Ans
    question, other = store.questions("dev")
    assert question.aliases == ("B. Lind",)
    assert (question.type, other.type) == ("2hop", "3hop1")
    assert len(question.passages) == 3
    places = [question.passages.index(number) for number in question.supporting]
    assert places == [1, 2]
    assert question.decomposition == (
        SubQuestion("Ada Moor >> born", "Ulm Vale", question.passages[1]),
        SubQuestion("#1 >> mayor", "Bo Lind", question.passages[2]),
    )
    # passages of test questions and of unanswerable ones count in the union
    assert len(store.passages) == 5


def test_an_unanswerable_question_has_no_task(copy):
    rows = [copies.musique(answerable=False)]
    copies.write(copy / "musique_ans_v1.0_dev.jsonl", rows)
    with pytest.raises(UsageError, match=r"no question of .*dev\.jsonl has an answer"):
        open_questions(str(copy))


# ---- lines of FlashRAG -------------------------------------------------------------------------------


def test_golden_answers_are_imported(copy):
    metadata = {"type": "bridge", "supporting_facts": {"title": ["Ulm Vale"], "sent_id": [1]}}
    copies.write(copy / "nq" / "test.jsonl", [copies.flashrag(), copies.flashrag("test_1", ["Ulm", "Ulm"])])
    copies.write(copy / "nq" / "train.jsonl", [copies.flashrag("train_0", ["other"])])
    copies.write(copy / "hotpotqa" / "dev.jsonl", [copies.flashrag("dev_0", metadata=metadata)])
    copies.write(copy / "popqa" / "test.jsonl", [{"question": "who?", "golden_answers": ["x"]}])
    entries = import_data(SEARCHQA, copy, progress=quiet)
    assert sorted(entries) == ["hotpotqa.questions", "nq.questions", "popqa.questions"]
    store = open_questions("searchqa/nq")
    assert store.splits == {"test": 2, "train": 1}
    assert len(store.passages) == 0
    first, second = store.questions("test")
    assert (first.answer, first.aliases, first.source_id) == ("Bo Lind", ("Lind",), "test_0")
    assert (second.answer, second.aliases) == ("Ulm", ("Ulm",))
    assert open_questions("searchqa/hotpotqa").question("dev", 0).facts == (("Ulm Vale", 1),)
    assert open_questions("searchqa/popqa").question("test", 0).source_id == "test/0"
    assert list(find_damage(SEARCHQA, progress=quiet)) == []


def test_any_file_of_golden_answers_can_be_named(copy):
    copies.write(copy / "mine.jsonl", [copies.flashrag()])
    assert open_questions(str(copy / "mine.jsonl")).splits == {"test": 1}
    copies.write(copy / "mine.jsonl", [copies.flashrag(answers=[])])
    with pytest.raises(UsageError, match=r"mine\.jsonl:1: field 'golden_answers': is empty"):
        open_questions(str(copy / "mine.jsonl"))


# ---- rows and titles as they are found elsewhere -----------------------------------------------------


def columns(record):
    """Return a question as Hugging Face's rows have it."""
    names = {"context": ("title", "sentences"), "supporting_facts": ("title", "sent_id")}
    tables = {
        key: {name: [row[place] for row in record[key]] for place, name in enumerate(names[key])}
        for key in names
    }
    row = {**record, **tables, "id": record["_id"]}
    del row["_id"]
    return row


@pytest.mark.parametrize("name", ["validation.jsonl", "train.jsonl", "rows.json", DEV])
def test_rows_of_hugging_face_are_read(copy, name):
    records = [copies.hotpot(), copies.hotpot("h2", question="Who?")]
    copies.write(copy / "theirs" / DEV, records)
    copies.write(copy / "ours" / name, [columns(record) for record in records])
    split = {"validation.jsonl": "valid", "train.jsonl": "train", DEV: "dev"}.get(name, "test")
    expected, found = open_questions(str(copy / "theirs")), open_questions(str(copy / "ours" / name))
    assert list(found.questions(split)) == list(expected.questions("dev"))
    bad = columns(copies.hotpot())
    bad["supporting_facts"]["sent_id"].pop()
    copies.write(copy / "ours" / name, [bad])
    with pytest.raises(UsageError, match="'supporting_facts': has columns of different lengths"):
        open_questions(str(copy / "ours" / name))


@pytest.mark.parametrize(("in_fact", "in_context"), [("A &amp; B", "A & B"), ("Cafe\u0301", "Caf\u00e9")])
def test_a_title_in_another_form_names_the_same_passage(copy, in_fact, in_context):
    for one, other in ((in_fact, in_context), (in_context, in_fact)):
        facts = [[one, 0], ["Ulm Vale", 1]]
        context = [copies.LIND, [other, ["A sentence."]], copies.VALE]
        copies.write(copy / DEV, [copies.hotpot(supporting_facts=facts, context=context)])
        (question,) = open_questions(str(copy / DEV)).questions("dev")
        assert (question.supporting, question.facts[0]) == ((1, 2), (other, 0))


def test_a_fact_that_no_passage_holds_is_not_supported(copy):
    copies.write(copy / DEV, [copies.hotpot(supporting_facts=[["Ada Moor", 1], ["Nowhere", 0]])])
    env = HotpotQAEnv(dataset=str(copy / DEV), split="dev", corpus="own", max_steps=4)
    env.reset(seed=0)
    env.step("search[Ada Moor]")
    assert env.measures()["support"] == 0.5


# ---- what is where -----------------------------------------------------------------------------------


def test_data_need_no_import(hotpotqa, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    hotpotqa.rename(tmp_path / "data" / "hotpotqa")
    store = open_questions("hotpotqa/distractor")
    assert store.splits == {"dev": 1, "train": 2}
    assert store.path.is_relative_to(tmp_path / "cache")
    assert list(find_damage(HOTPOTQA, progress=quiet)) == []  # nothing vouches for it, but its form is right
    assert open_questions("hotpotqa/distractor") is store
    monkeypatch.setattr(importer, "import_set", None)
    assert open_questions("hotpotqa/distractor") is store


def test_changed_files_are_imported_anew(hotpotqa):
    before = open_questions(str(hotpotqa))
    copies.write(hotpotqa / DEV, [copies.hotpot(), copies.hotpot("h2", "And who else?")])
    assert open_questions(str(hotpotqa)).splits["dev"] == before.splits["dev"] + 1


def test_what_is_missing_says_what_to_run(hotpotqa, tmp_path):
    with pytest.raises(MissingDataError, match="agentgym data import hotpotqa PATH"):
        open_questions("hotpotqa/distractor")
    import_data(HOTPOTQA, hotpotqa, progress=quiet)
    with pytest.raises(
        MissingDataError, match=r"no set 'hotpotqa/fullwiki' in .* has hotpotqa/distractor: run"
    ):
        open_questions("hotpotqa/fullwiki")
    with pytest.raises(
        MissingDataError, match=r"no questions at .*: name a file or a folder, or one of hotpotqa/"
    ):
        open_questions(str(tmp_path / "nowhere"))


def test_a_folder_of_several_sets_is_refused(hotpotqa, tmp_path):
    copies.write(hotpotqa / "hotpot_dev_fullwiki_v1.json", [copies.hotpot()])
    with pytest.raises(UsageError, match="holds the sets distractor, fullwiki: name a file of questions"):
        open_questions(str(hotpotqa))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no questions"):
        open_questions(str(tmp_path / "empty"))


def test_a_file_alone_can_be_named(hotpotqa):
    assert open_questions(str(hotpotqa / DEV)).splits == {"dev": 1}
    import_data(HOTPOTQA, hotpotqa, progress=quiet)
    path = open_questions("hotpotqa/distractor").path
    assert open_questions(str(path)).path == path


def test_one_part_twice_is_refused(hotpotqa):
    copies.write(hotpotqa / "data" / DEV, [copies.hotpot()])
    with pytest.raises(UsageError, match="are one part of the set 'distractor': name the folder of one"):
        import_data(HOTPOTQA, hotpotqa, progress=quiet)


def test_every_source_names_its_sets():
    assert {source.name for source in SOURCES} == importer.RULES.keys()
    for source in SOURCES:
        named = {rule.set for rule in importer.RULES[source.name]} - {""}
        assert named <= source.sets.keys()


# ---- samples -----------------------------------------------------------------------------------------


def sample(**changes):
    record = {
        "id": "s1",
        "question": "Who?",
        "answer": "Bo",
        "aliases": [],
        "type": "bridge",
        "level": None,
        "supporting_facts": [["B", 0]],
        "passages": [
            {"title": "B", "text": "B is Bo.", "is_supporting": True},
            {"title": "C", "text": "C is not.", "is_supporting": False},
            {"title": "B", "text": "B is Bo.", "is_supporting": True},
        ],
    }
    return {**record, **changes}


def test_a_sample_keeps_the_numbers_of_its_corpus(copy, capsys):
    corpus = [{"id": i, "title": title, "text": f"{title} is Bo."} for i, title in enumerate("XB")]
    copies.write(copy / "corpus.jsonl", corpus)
    copies.write(copy / "questions.jsonl", [sample()])
    copies.write(
        copy / "distractor_corpus.json", [{"title": "X", "text": "X is Bo."}, {"title": "D", "text": "D."}]
    )
    import_data(TWOWIKI, copy, progress=quiet)
    store = open_questions("twowiki/sample")
    assert [passage.title for passage in store.passages] == ["X", "B", "C"]
    assert store.question("dev", 0).passages == (1, 2)  # a passage that comes twice is one
    assert store.question("dev", 0).supporting == (1,)
    assert main(["data", "list"]) == 0
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("twowiki"))
    assert "sample," in row  # and not `missing`
    wider = open_questions("twowiki/sample-distractors")
    assert [passage.title for passage in wider.passages] == ["X", "B", "D", "C"]
    assert wider.question("dev", 0).id == store.question("dev", 0).id


@pytest.mark.assets
@pytest.mark.parametrize(
    ("name", "questions", "passages", "recall"),
    [
        ("hotpotqa/sample", 300, 3_930, 0.875),
        ("hotpotqa/questions", 7_405, 0, None),
        ("twowiki/sample", 120, 1_294, 0.723),
        ("twowiki/sample-distractors", 120, 7_005, 0.690),
        ("musique/sample", 220, 5_021, 0.546),
    ],
)
def test_the_real_samples(name, questions, passages, recall, monkeypatch, real_data):
    monkeypatch.setenv("AGENTGYM_DATA", real_data)
    store = open_questions(name)
    assert store.splits == {"dev": questions}
    assert len(store.passages) == passages
    assert store.left_out == {}
    store.verify()
    if recall is not None:
        every = list(store.questions("dev"))
        assert all(question.supporting for question in every)
        searcher = search_in_memory(store.passages, corpus=name)
        hits = searcher.hits([question.question for question in every], 10)
        found = [
            len(set(question.supporting) & set(each.documents.tolist())) / len(question.supporting)
            for question, each in zip(every, hits, strict=True)
        ]
        assert sum(found) / len(found) == pytest.approx(recall, abs=0.01)


# ---- texts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentences", "text", "ends"),
    [
        ([], "", []),
        (["One."], "One.", [4]),
        (["", "One.", ""], "One.", [0, 4, 4]),
        (["One.", "Two."], "One. Two.", [4, 9]),
        (["One. ", " Two."], "One. Two.", [4, 9]),
        (["One.", "\u00a0Two\u00a0two."], "One. Two\u00a0two.", [4, 13]),
        (["  One.", "   "], "One.", [4, 4]),
    ],
)
def test_sentences_are_joined(sentences, text, ends):
    assert join_sentences(sentences) == (text, ends)


def test_a_title_of_several_lines_is_one_line(copy):
    copies.write(copy / DEV, [copies.hotpot(context=[["A\nB ", ["x"]]], supporting_facts=[["A\nB ", 0]])])
    store = open_questions(str(copy))
    assert store.passages.title(0) == "A B"
    assert store.question("dev", 0).supporting == (0,)


def test_questions_survive_packing_and_odd_characters():
    question = StoredQuestion("i", "s", "q\ud800?\n", "a", ("b",), passages=(3,), facts=(("t\u2028", 1),))
    assert StoredQuestion.unpack(question.pack()) == question


def test_a_passage_without_text_is_none(copy):
    context = [["Empty", ["", " "]], copies.VALE, ["Nothing", []]]
    copies.write(
        copy / DEV, [copies.hotpot(context=context, supporting_facts=[["Empty", 0], ["Ulm Vale", 1]])]
    )
    store = open_questions(str(copy))
    assert len(store.passages) == 1
    question = store.question("dev", 0)
    assert question.passages == question.supporting == (0,)
    store.verify()
