"""Importer of question sets: their files, the stores made of them, and the lookup of both."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym.core.hashing import content_id
from agentgym.core.suite_spec import DataSource
from agentgym.core.types import Passage
from agentgym.data.archives import Progress
from agentgym.data.directory import cache_directory, data_directory, find
from agentgym.data.importing import Importer
from agentgym.data.jsonstream import Watch, read_records, unwatched
from agentgym.data.packed import archive_of, stored_size
from agentgym.data.progress import part_of, progress_bar
from agentgym.data.sources import how_to_get
from agentgym.envs.multihop.data.layouts import (
    HOTPOTQA_FILES,
    MUSIQUE_FILES,
    PARSERS,
    SEARCHQA_FILES,
    SPLIT_ORDER,
    TWOWIKI_FILES,
    FileRole,
    FileRule,
    SetFile,
    SetFiles,
    find_files,
    group_files,
    refuse_lookalike,
    role_of,
)
from agentgym.envs.multihop.data.questions import StoredQuestion, SubQuestion, question_id
from agentgym.envs.multihop.data.questionstore import (
    FORMAT,
    PASSAGES,
    QUESTIONS,
    QuestionStore,
    QuestionStoreWriter,
    open_store,
)
from agentgym.envs.multihop.data.records import (
    Aliases,
    FoundPassage,
    FoundQuestion,
    join_sentences,
    parse_aliases,
    parse_passage,
)
from agentgym.envs.multihop.data.search_r1 import read_search_r1
from agentgym.envs.multihop.sources import HOTPOTQA, MUSIQUE, SEARCHQA, SOURCES, TWOWIKI
from agentgym.errors import MissingDataError, UsageError
from agentgym.retrieval.corpus.passages import PassageFile, write_passages

RULES: Mapping[str, Sequence[FileRule]] = {
    HOTPOTQA.name: HOTPOTQA_FILES,
    TWOWIKI.name: TWOWIKI_FILES,
    MUSIQUE.name: MUSIQUE_FILES,
    SEARCHQA.name: SEARCHQA_FILES,
}
"""Files of each source's copies."""


# ---- what `agentgym.data.importing` asks of a source -------------------------------------------------


def _importer(rules: Sequence[FileRule]) -> Importer:
    def find_parts(origin: Path) -> Iterator[Path]:
        if origin.is_dir():
            yield from sorted(path for path in origin.iterdir() if path.suffix in (QUESTIONS, PASSAGES))
        yield from find_files(rules, origin)

    def check_file(path: Path) -> int:
        return _check_file(rules, path)

    def convert(files: Sequence[Path], folder: Path, *, progress: Progress) -> dict[str, int]:
        stores = [file for file in files if file.suffix in (QUESTIONS, PASSAGES)]
        if stores:
            raise UsageError(f"{stores[0]} has been imported before: name a copy of the upstream data")
        return _convert(group_files(rules, files), files, folder, progress)

    def sets_in(folder: Path) -> frozenset[str]:
        found = list(find_parts(folder))
        stores = {path.stem for path in found if path.suffix == QUESTIONS}
        files = [path for path in found if path.suffix not in (QUESTIONS, PASSAGES)]
        return frozenset(stores | group_files(rules, files).keys())

    return Importer(find_parts, check_file, convert, sets_in)


HOTPOTQA_IMPORTER = _importer(HOTPOTQA_FILES)
TWOWIKI_IMPORTER = _importer(TWOWIKI_FILES)
MUSIQUE_IMPORTER = _importer(MUSIQUE_FILES)
SEARCHQA_IMPORTER = _importer(SEARCHQA_FILES)


def _check_file(rules: Sequence[FileRule], path: Path) -> int:
    """Return the number of records in a file; UsageError if one cannot be read."""
    if path.suffix == QUESTIONS:
        store = open_store(path)
        store.verify()
        return len(store)
    if path.suffix == PASSAGES:
        passages = PassageFile(path)
        passages.verify()
        return len(passages)
    role = role_of(rules, path)
    if role == "aliases":
        return len(_read_aliases(path))
    archive, member = archive_of(path)
    folder = archive if member else path.parent
    beside = [file for file in find_files(rules, folder) if role_of(rules, file) == "aliases"]
    aliases = _read_aliases(beside[0]) if beside else {}
    count = 0
    for where, record in _records(path, role):
        count += 1
        if role == "corpus":
            parse_passage(record, where)
        else:
            PARSERS[role](record, where, aliases)
    return count


def _convert(
    sets: Mapping[str, SetFiles], files: Sequence[Path], folder: Path, progress: Progress
) -> dict[str, int]:
    """Write the two files of each set; return how many records each holds."""
    if not sets:
        raise UsageError(f"no questions beside {files[0]}: name a folder that holds some, too")
    total = sum(group.size for group in sets.values())
    counts: dict[str, int] = {}
    done = 0
    for name, group in sets.items():
        try:
            store = import_set(group, folder / f"{name}{QUESTIONS}", part_of(progress, done, total))
        except MissingDataError:  # a part of a published file, which lacks questions of a subset
            continue
        counts[f"{name}{QUESTIONS}"] = len(store)
        if len(store.passages):
            counts[f"{name}{PASSAGES}"] = len(store.passages)
        done += group.size
    return counts


def import_set(files: SetFiles, path: Path, watch: Watch = unwatched) -> QuestionStore:
    """Write the store of one set, in memory for little more than its ids and digests of its passages.

    The file of passages is put beside ``path``; ``watch`` is called with bytes read so far.
    """
    for file in files.paths:
        refuse_lookalike(file)
    with QuestionStoreWriter(path) as writer:
        stream = _SetStream(files, writer)
        found = stream.subset(watch) if files.subset else stream.passages(watch)
        passages = write_passages(path.with_suffix(PASSAGES), found, corpus=files.name)
        if not len(writer):
            raise UsageError(
                f"no question of {files.paths[-1]} has an answer: name a set that is no test set"
            )
        writer.finish(files.name, passages)
    if not len(passages):
        path.with_suffix(PASSAGES).unlink(missing_ok=True)
    return QuestionStore(path)


# ---- what the environment asks -----------------------------------------------------------------------


def open_questions(dataset: str) -> QuestionStore:
    """Return the questions of a data set, imported into the cache at first use.

    ``dataset``: ``"SOURCE/SET"`` in the data directory, such as ``"hotpotqa/distractor"``,
    ``"twowiki/official"``, ``"musique/ans"`` or ``"searchqa/nq"``, ``"hotpotqa/dev-200"`` for the questions
    that ``subsets.toml`` lists, and ``"hotpotqa/sample"`` and so on where the folder holds a sample; or the
    path of a store, of a folder that holds one set, or of a file: of any name where its records are in the
    form of HotpotQA, MuSiQue or FlashRAG.
    """
    source = _source_of(dataset)
    if source is None:
        return _open_path(Path(dataset).expanduser().absolute())
    name = dataset.partition("/")[2]
    root = data_directory() / source.folder
    if (root / f"{name}{QUESTIONS}").exists():
        return open_store(root / f"{name}{QUESTIONS}")
    sets = group_files(RULES[source.name], find_files(RULES[source.name], root)) if root.is_dir() else {}
    if name in sets:
        return _open_files(sets[name], source.name)
    stores = {path.stem for path in root.glob(f"*{QUESTIONS}")} if root.is_dir() else set()
    if known := ", ".join(f"{source.name}/{each}" for each in sorted(sets.keys() | stores)):
        raise MissingDataError(f"no set {dataset!r} in {root}, which has {known}: {how_to_get(source, name)}")
    find(f"{source.folder}/{name}", source)  # the error says what to do
    raise AssertionError("a set that is there was not found")


def _source_of(dataset: str) -> DataSource | None:
    """Return the source that a data set is named by; None for a path."""
    prefix, slash, rest = dataset.partition("/")
    if not slash or not rest or "/" in rest:
        return None
    return next((source for source in SOURCES if source.name == prefix), None)


def _open_path(path: Path) -> QuestionStore:
    if not path.exists():
        known = ", ".join(f"{source.name}/{next(iter(source.sets))}" for source in SOURCES)
        raise MissingDataError(f"no questions at {str(path)!r}: name a file or a folder, or one of {known}")
    if path.suffix == QUESTIONS:
        return open_store(path)
    found = [
        (source, files)
        for source, rules in RULES.items()
        for files in group_files(rules, find_files(rules, path)).values()
        if not files.subset
    ]
    if path.is_file():
        named: FileRole = next((file.role for _, files in found for file in files.files), "flashrag")
        role = _role_within(path, named)
        if not found or role != named:
            split = {"validation": "valid"}.get(path.stem, path.stem)
            split = split if split in SPLIT_ORDER else "test"
            return _open_files(SetFiles(path.stem, (SetFile(path, role, split),)), "file")
    distinct = {files.paths: (source, files) for source, files in found}
    if len(distinct) != 1:
        names = ", ".join(sorted({files.name for _, files in found}))
        raise UsageError(
            f"{path} holds {f'the sets {names}' if names else 'no questions'}: name a file of questions, or "
            "import the folder and name the set"
        )
    source, files = next(iter(distinct.values()))
    return _open_files(files, source)


def _role_within(path: Path, named: FileRole) -> FileRole:
    """Return the role of a file by its first record, where a name such as ``train.jsonl`` tells little."""
    if named not in ("flashrag", "sample", "bare"):
        return named
    _, first = next(read_records(path), ("", {}))
    return "hotpot" if "context" in first else "musique" if "paragraphs" in first else named


def _open_files(files: SetFiles, source: str) -> QuestionStore:
    """Return the questions of files, from the cache, where they are imported unless they have been."""
    state = [(str(path), stored_size(path), archive_of(path)[0].stat().st_mtime_ns) for path in files.paths]
    name = f"{source}-{files.name}-{content_id((FORMAT, files.name, state))[:16]}{QUESTIONS}"
    path = cache_directory() / "multihop" / name
    if not path.exists():
        with progress_bar(f"importing {source}/{files.name}") as progress:
            import_set(files, path, part_of(progress, 0, files.size))
    return open_store(path)


# ---- from files to records ---------------------------------------------------------------------------


class _SetStream:
    """The passages of a set, each once and numbered as they come; questions are written on the way."""

    def __init__(self, files: SetFiles, writer: QuestionStoreWriter):
        self._set = files
        self._files = files.files
        self._writer = writer
        self._numbers: dict[bytes, int] = {}
        self._fresh: list[Passage] = []
        self._aliases: Aliases = {}

    def passages(self, watch: Watch) -> Iterator[Passage]:
        """Yield every passage that was not there before, file by file."""
        done = 0
        split = ""
        for file in self._files:
            size = stored_size(file.path)
            if file.role == "aliases":
                self._aliases = _read_aliases(file.path)
            else:
                for number, (where, record) in enumerate(_records(file.path, file.role, _after(watch, done))):
                    if file.role == "corpus":
                        self._number(parse_passage(record, where))
                    else:
                        found = PARSERS[file.role](record, where, self._aliases)
                        split = self._take(found, file, number, split)
                    yield from self._fresh
                    self._fresh.clear()
            done += size
            watch(done)

    def subset(self, watch: Watch) -> Iterator[Passage]:
        """Yield the passages of the questions that ``subsets.toml`` lists, in its order.

        So the store is the same whichever file holds the questions. MissingDataError where one is missing.
        """
        listed = tomllib.loads(Path(__file__).with_name("subsets.toml").read_text(encoding="utf-8"))
        wanted: dict[str, FoundQuestion | None] = dict.fromkeys(listed[self._set.subset])
        done = 0
        for file in self._files:
            for where, record in _records(file.path, file.role, _after(watch, done)):
                found = PARSERS[file.role](record, where, {})
                if found.source_id in wanted:
                    wanted[found.source_id] = found
            done += stored_size(file.path)
        questions = [found for found in wanted.values() if found is not None]
        if len(questions) < len(wanted):
            raise MissingDataError(
                f"{self._files[0].path} has {len(questions)} of the {len(wanted)} questions of "
                f"{self._set.name}: get the whole published file"
            )
        split = ""
        for found in questions:
            split = self._take(found, self._files[0], 0, split)
            yield from self._fresh
            self._fresh.clear()

    def _take(self, found: FoundQuestion, file: SetFile, number: int, split: str) -> str:
        """Number the passages of a question, write it if it has an answer, and return the split begun."""
        numbers = [self._number(passage) for passage in found.passages]  # a passage without a text has None
        hidden = file.role == "hotpot" and file.split == "test" and not found.answer  # empty, or left out
        if found.answer is None or hidden or file.role == "passages":
            return split
        if file.split != split:
            self._writer.begin_split(file.split)
        own = tuple(dict.fromkeys(number for number in numbers if number is not None))
        gold_numbers = (numbers[place] for place in found.gold)
        supporting = tuple(dict.fromkeys(number for number in gold_numbers if number is not None))
        texts = dict(zip(numbers, found.passages, strict=True))
        contents = [(texts[each].title, join_sentences(texts[each].sentences)[0]) for each in own]
        gold = [own.index(each) for each in supporting]
        aliases = found.aliases
        self._writer.add(
            StoredQuestion(
                id=question_id(found.question, found.answer, aliases, contents, gold),
                source_id=found.source_id or f"{file.split}/{number}",
                question=found.question,
                answer=found.answer,
                aliases=aliases,
                type=found.type,
                level=found.level,
                passages=own,
                supporting=supporting,
                facts=found.facts,
                evidences=found.evidences,
                decomposition=tuple(
                    SubQuestion(hop.question, hop.answer, None if hop.place is None else numbers[hop.place])
                    for hop in found.decomposition
                ),
            )
        )
        return file.split

    def _number(self, found: FoundPassage) -> int | None:
        """Return the number of a passage: two are one if title and text are equal. None for no text."""
        text, ends = join_sentences(found.sentences)
        if not text:
            return None
        key = hashlib.blake2b(
            f"{found.title}\n{text}".encode("utf-8", "surrogatepass"), digest_size=16
        ).digest()
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            self._fresh.append(Passage(str(number), found.title, text))
            self._writer.add_sentences(ends)
        return number


def _records(path: Path, role: FileRole, watch: Watch = unwatched) -> Iterator[tuple[str, Any]]:
    return (read_search_r1 if role == "search-r1" else read_records)(path, watch)


def _read_aliases(path: Path) -> Aliases:
    return dict(parse_aliases(record, where) for where, record in read_records(path))


def _after(watch: Watch, done: int) -> Callable[[int], None]:
    return lambda read: watch(done + read)
