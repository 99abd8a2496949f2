"""The records of the published question sets, each read into one form.

* HotpotQA and 2WikiMultihopQA: ``_id, question, answer, type, context: [[title, [sentence, ...]], ...],
  supporting_facts: [[title, sentence number], ...]``; HotpotQA has ``level``, 2WikiMultihopQA ``evidences``
  and, since December 2020, ``evidences_id`` and ``answer_id``, whose names are in ``id_aliases.json``.
  Rows of Hugging Face have ``id``, ``context: {title: [...], sentences: [...]}`` and
  ``supporting_facts: {title: [...], sent_id: [...]}``.
* MuSiQue: ``id, question, answer, answer_aliases, answerable, question_decomposition, paragraphs: [{idx,
  title, paragraph_text, is_supporting}, ...]``.
* samples: ``id, question, answer, aliases, type, level, supporting_facts, decomposition, answerable,
  passages: [{title, text, is_supporting}, ...]``, what a set does not have left out or null.
* bare questions: ``index, question, answer, type, level``.
* FlashRAG, which Search-R1 trains on too: ``id, question, golden_answers, metadata``. Of the metadata, which
  each set has its own, type, level and ``supporting_facts: {title: [...], sent_id: [...]}`` are read.

Test sets have no answers; their passages count in the union all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from agentgym.data.jsonfields import Fields, shown
from agentgym.envs.multihop.data.questions import plain_title
from agentgym.envs.multihop.scoring import Evidence

MAX_PASSAGES = 1_000
"""Passages of one question at most."""

MAX_NAME_LENGTH = 200
"""Characters of an upstream id at most."""

Aliases: TypeAlias = Mapping[str, tuple[str, ...]]
"""Names of entities by their id in Wikidata."""


_T = TypeVar("_T")


class FoundPassage(NamedTuple):
    """A passage of a file."""

    title: str
    sentences: tuple[str, ...]
    """Sentences of the text; one where the file does not separate them."""


class FoundHop(NamedTuple):
    """One hop of a decomposition."""

    question: str
    answer: str
    place: int | None
    """Place of the passage that supports it, among the question's own."""


class FoundQuestion(NamedTuple):
    """A question of a file, with its passages by place instead of number."""

    source_id: str
    """Id of the question upstream; empty where it has none."""
    question: str
    answer: str | None
    """Gold answer; None in a test set and for unanswerable questions, of which only the passages are used."""
    aliases: tuple[str, ...] = ()
    type: str = ""
    level: str = ""
    passages: tuple[FoundPassage, ...] = ()
    gold: tuple[int, ...] = ()
    """Places of the passages that support the answer."""
    facts: tuple[tuple[str, int], ...] = ()
    evidences: tuple[Evidence, ...] = ()
    decomposition: tuple[FoundHop, ...] = ()


QuestionParser: TypeAlias = Callable[[object, str, Aliases], FoundQuestion]
"""``parse(record, where, aliases)``: reads one JSON value; UsageError, naming ``where``, if it cannot."""


def parse_hotpot(record: object, where: str, aliases: Aliases) -> FoundQuestion:
    """Read a question of HotpotQA or 2WikiMultihopQA."""
    fields = Fields(record, where)
    passages = tuple(_context(fields))
    answered = fields.optional("answer") is not None
    facts = _with_titles_of(passages, _facts(fields)) if answered else ()
    titles = {title for title, _ in facts}
    answer = fields.text("answer") if answered else None
    return FoundQuestion(
        source_id=_name(fields, "_id" if fields.optional("id") is None else "id"),
        question=fields.text("question"),
        answer=answer,
        aliases=_names(fields, answer, aliases),
        type=_text_or_empty(fields, "type"),
        level=_text_or_empty(fields, "level"),
        passages=passages,
        gold=tuple(place for place, passage in enumerate(passages) if passage.title in titles),
        facts=facts,
        evidences=tuple(_evidences(fields, aliases)) if answered else (),
    )


def parse_plain(record: object, where: str, aliases: Aliases, *, separator: str) -> FoundQuestion:
    """Read a question of HotpotQA (``separator`` "") or 2WikiMultihopQA (" ") as the samples have it.

    Each passage is one piece of text; triples and further names of entities are left out.
    """
    fields = record.items() if isinstance(record, dict) else ()
    left_out = ("answer_id", "evidences", "evidences_id")
    found = parse_hotpot({name: value for name, value in fields if name not in left_out}, where, aliases)
    passages = (FoundPassage(title, (separator.join(parts),)) for title, parts in found.passages)
    return found._replace(passages=tuple(passages))


def parse_musique(record: object, where: str, aliases: Aliases) -> FoundQuestion:
    """Read a question of MuSiQue; one that is not answerable has no answer here."""
    fields = Fields(record, where)
    paragraphs = _few(fields, "paragraphs", fields.objects("paragraphs"))
    passages = tuple(
        FoundPassage(_one_line(paragraph.text("title")), (paragraph.text("paragraph_text"),))
        for paragraph in paragraphs
    )
    source_id = _name(fields, "id")
    answered = fields.optional("answer") is not None
    if not answered or not fields.flag("answerable"):
        return FoundQuestion(source_id, fields.text("question"), None, passages=passages)
    return FoundQuestion(
        source_id=source_id,
        question=fields.text("question"),
        answer=fields.text("answer"),
        aliases=fields.texts("answer_aliases"),
        type=_shape(source_id),
        passages=passages,
        gold=tuple(place for place, each in enumerate(paragraphs) if each.flag("is_supporting")),
        decomposition=_hops(fields, "question_decomposition", len(passages)),
    )


def parse_sample(record: object, where: str, aliases: Aliases) -> FoundQuestion:
    """Read a question of a sample of any of the three sets."""
    fields = Fields(record, where)
    given = _few(fields, "passages", fields.objects("passages"))
    has_facts = fields.optional("supporting_facts") is not None
    decomposed = fields.optional("decomposition") is not None
    source_id = _name(fields, "id")
    answerable = fields.optional("answerable") is None or fields.flag("answerable")
    passages = (FoundPassage(_one_line(each.text("title")), (each.text("text"),)) for each in given)
    return FoundQuestion(
        source_id=source_id,
        question=fields.text("question"),
        answer=fields.text("answer") if answerable else None,
        aliases=fields.texts("aliases"),
        type=_shape(source_id) if decomposed else _text_or_empty(fields, "type"),
        level=_text_or_empty(fields, "level"),
        passages=tuple(passages),
        gold=tuple(place for place, each in enumerate(given) if each.flag("is_supporting")),
        facts=_facts(fields) if has_facts else (),
        decomposition=_hops(fields, "decomposition", len(given)) if decomposed else (),
    )


def parse_bare(record: object, where: str, aliases: Aliases) -> FoundQuestion:
    """Read a question that comes with its answer alone."""
    fields = Fields(record, where)
    return FoundQuestion(
        source_id="",
        question=fields.text("question"),
        answer=fields.text("answer"),
        type=_text_or_empty(fields, "type"),
        level=_text_or_empty(fields, "level"),
    )


def parse_flashrag(record: object, where: str, aliases: Aliases) -> FoundQuestion:
    """Read a question of a set in FlashRAG's form: the first of the golden answers is the answer."""
    fields = Fields(record, where)
    answers = fields.texts("golden_answers")
    if not answers:
        fields.fail("golden_answers", "is empty: a question has one answer at least")
    has_id = fields.optional("id") is not None
    metadata = fields.optional("metadata")
    about = Fields(metadata, where) if isinstance(metadata, dict) else Fields({}, where)
    return FoundQuestion(
        source_id=_name(fields, "id") if has_id else "",
        question=fields.text("question"),
        answer=answers[0],
        aliases=tuple(dict.fromkeys(answers[1:])),
        type=_text_or_empty(about, "type"),
        level=_text_or_empty(about, "level"),
        facts=_fact_columns(about),
    )


def parse_passage(record: object, where: str) -> FoundPassage:
    """Read a passage of a corpus: ``title, text``."""
    fields = Fields(record, where)
    return FoundPassage(_one_line(fields.text("title")), (fields.text("text"),))


def parse_aliases(record: object, where: str) -> tuple[str, tuple[str, ...]]:
    """Read a line of ``id_aliases.json``: an entity's id, and its aliases and demonyms, sorted."""
    fields = Fields(record, where)
    return fields.text("Q_id"), tuple(sorted({*fields.texts("aliases"), *fields.texts("demonyms")}))


def join_sentences(sentences: Sequence[str]) -> tuple[str, list[int]]:
    """Return the text of sentences, and where each ends.

    They are stripped and joined by spaces, as in StepPO's corpora: HotpotQA's begin with the blank before
    them, and 2WikiMultihopQA's do not.

    Example:
        >>> join_sentences(["One.", " Two.", "Three. "])
        ('One. Two. Three.', [4, 9, 16])
    """
    text = ""
    ends = []
    for sentence in map(str.strip, sentences):
        text = f"{text} {sentence}" if text and sentence else text + sentence
        ends.append(len(text))
    return text, ends


def _context(fields: Fields) -> list[FoundPassage]:
    passages = []
    for each in _few(fields, "context", _rows(fields, "context", "title", "sentences")):
        match each:
            case [str(title), [*sentences]] if all(isinstance(sentence, str) for sentence in sentences):
                passages.append(FoundPassage(_one_line(title), tuple(sentences)))
            case _:
                fields.fail("context", f"expected [title, [sentence, ...]], got {shown(each)}")
    return passages


def _facts(fields: Fields) -> tuple[tuple[str, int], ...]:
    facts = []
    for each in _rows(fields, "supporting_facts", "title", "sent_id"):
        match each:
            case [str(title), int(sentence)]:
                facts.append((_one_line(title), sentence))
            case _:
                fields.fail("supporting_facts", f"expected [title, number], got {shown(each)}")
    return tuple(dict.fromkeys(facts))


def _fact_columns(about: Fields) -> tuple[tuple[str, int], ...]:
    match about.optional("supporting_facts"):
        case {"title": [*titles], "sent_id": [*sentences]} if len(titles) == len(sentences):
            return _facts(about)
    return ()


def _rows(fields: Fields, name: str, *columns: str) -> list[Any]:
    """Return the rows of a list, or of the table of columns that may stand for it."""
    match fields.get(name):
        case dict(table) if table.keys() >= set(columns):
            lists = Fields(table, f"{fields.where}: field {name!r}")
            found = [lists.items(column) for column in columns]
            if len({len(column) for column in found}) > 1:
                fields.fail(name, f"has columns of different lengths: {shown(table)}")
            return [list(row) for row in zip(*found, strict=True)]
    return fields.items(name)


def _with_titles_of(
    passages: Sequence[FoundPassage], facts: Sequence[tuple[str, int]]
) -> tuple[tuple[str, int], ...]:
    """Return facts with the titles of the passages that they name, where these are written differently."""
    titles = {passage.title for passage in passages}
    plain = {plain_title(title): title for title in titles}
    return tuple(
        dict.fromkeys(
            (title if title in titles else plain.get(plain_title(title), title), number)
            for title, number in facts
        )
    )


def _names(fields: Fields, answer: str | None, aliases: Aliases) -> tuple[str, ...]:
    """Return the other names of the entity that is the answer."""
    entity = fields.optional("answer_id")
    if entity is None or answer is None:
        return ()
    if not aliases:
        fields.fail(
            "answer_id", "names an entity, but there is no id_aliases.json beside the file: put it there"
        )
    return tuple(name for name in aliases.get(fields.text("answer_id"), ()) if name != answer)


def _evidences(fields: Fields, aliases: Aliases) -> list[Evidence]:
    if fields.optional("evidences") is None:
        return []
    triples = _triples(fields, "evidences")
    entities = _triples(fields, "evidences_id") if fields.optional("evidences_id") else []
    if entities and len(entities) != len(triples):
        fields.fail("evidences_id", f"has {len(entities)} triples, and evidences {len(triples)}")
    found = []
    for place, (subject, relation, target) in enumerate(triples):
        subject_id, _, target_id = entities[place] if entities else ("", "", "")
        found.append(
            Evidence(
                tuple(dict.fromkeys((subject, *aliases.get(subject_id, ())))),
                relation,
                tuple(dict.fromkeys((target, *aliases.get(target_id, ())))),
            )
        )
    return found


def _triples(fields: Fields, name: str) -> list[tuple[str, str, str]]:
    triples = []
    for each in fields.items(name):
        match each:
            case [str(subject), str(relation), str(target)]:
                triples.append((subject, relation, target))
            case _:
                fields.fail(name, f"expected triples of strings, got {shown(each)}")
    return triples


def _hops(fields: Fields, name: str, passages: int) -> tuple[FoundHop, ...]:
    hops = []
    for hop in fields.objects(name):
        place = hop.optional("paragraph_support_idx")
        if place is not None and not (type(place) is int and 0 <= place < passages):
            hop.fail("paragraph_support_idx", f"is not a place of a paragraph: {shown(place)}")
        hops.append(FoundHop(hop.text("question"), hop.text("answer"), place))
    return tuple(hops)


def _few(fields: Fields, name: str, values: list[_T]) -> list[_T]:
    if len(values) > MAX_PASSAGES:
        fields.fail(name, f"has {len(values):,} passages, more than {MAX_PASSAGES:,}")
    return values


def _name(fields: Fields, name: str) -> str:
    text = fields.text(name)
    if not 0 < len(text) <= MAX_NAME_LENGTH:
        fields.fail(name, f"an id has 1 to {MAX_NAME_LENGTH} characters, not {len(text):,}")
    return text


def _text_or_empty(fields: Fields, name: str) -> str:
    return "" if fields.optional(name) is None else fields.text(name)


def _shape(source_id: str) -> str:
    """Return the prefix of MuSiQue's ids: ``2hop``, ``3hop1``, ``4hop3`` and so on."""
    return source_id.partition("__")[0]


def _one_line(title: str) -> str:
    return title.strip() if "\n" not in title else " ".join(title.split())
