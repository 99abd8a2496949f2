"""Blocks of a corpus: counted in one process or several, and reused after an interrupted build.

Every full block goes to a folder of the spool under the sha256 of the corpus up to its end, by one rename. A
build that was killed reads the corpus again, and counts only the blocks that are not there; one that another
corpus left is counted anew. The last block, which is not full, stays in memory.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from agentgym.core.hashing import canonical
from agentgym.errors import UsageError
from agentgym.io.files import draft_of, make_folder, sole_writer, writing
from agentgym.retrieval.analysis import Analyser, shared_analyser
from agentgym.retrieval.corpus.naming import IdColumn
from agentgym.retrieval.engines.bm25.counting import CountedBlock, count_block
from agentgym.retrieval.engines.bm25.merging import BlockSource
from agentgym.retrieval.index import spool_beside

if TYPE_CHECKING:
    from concurrent.futures import Future

BLOCK = 1 << 24
"""Characters of a full block, about."""


@dataclass(frozen=True, slots=True)
class CountedCorpus:
    """A corpus whose terms are counted."""

    blocks: list[BlockSource]
    ids: IdColumn
    sha256: str


class _Texts(NamedTuple):
    """The texts of a block."""

    texts: list[str]
    sha256: str
    """Digest of the corpus up to this block's end."""
    full: bool


class _Reader:
    """Reads a corpus in blocks, and keeps its ids and its sha256."""

    def __init__(self, documents: Iterable[tuple[str, str]], progress: Callable[[int], None]):
        self._documents = documents
        self._progress = progress
        self._sha256 = hashlib.sha256()
        self.ids = IdColumn()

    def __iter__(self) -> Iterator[_Texts]:
        texts: list[str] = []
        size = 0
        for name, text in self._documents:
            self._sha256.update(canonical((name, text)))
            self.ids.add(name)
            texts.append(text)
            size += len(text) + 1
            self._progress(len(self.ids))
            if size >= BLOCK:
                yield _Texts(texts, self.sha256, full=True)
                texts, size = [], 0
        yield _Texts(texts, self.sha256, full=False)

    @property
    def sha256(self) -> str:
        """Of the corpus so far."""
        return self._sha256.hexdigest()


def count_corpus(
    documents: Iterable[tuple[str, str]],
    spool: Path | None,
    progress: Callable[[int], None] = lambda done: None,
    processes: int = 1,
) -> CountedCorpus:
    """Count the terms of all documents, given as ids and texts.

    ``spool``: folder for full blocks, whose finished ones are reused; None holds all in memory. More than one
    of ``processes`` needs an importable program (``if __name__ == "__main__"``).
    """
    if processes < 1:
        raise UsageError(
            f"an index is built by one process at least: ask for processes >= 1, not {processes}"
        )
    reader = _Reader(documents, progress)
    analyser = shared_analyser()
    blocks: list[BlockSource] = []
    with ExitStack() as stack:
        pool = _Pool(stack, processes) if spool is not None and processes > 1 else None
        for texts, sha256, full in reader:
            if spool is None or not full:
                blocks.append(_held(count_block(texts, analyser)))
                continue
            folder = spool / sha256
            if not folder.exists():
                if pool is None:
                    store_block(count_block(texts, analyser), folder)
                else:
                    pool.store(texts, folder)
            blocks.append(partial(_load_block, folder))
        if pool is not None:
            pool.finish()
    return CountedCorpus(blocks, reader.ids, reader.sha256)


class _Pool:
    """Processes that count blocks; a few blocks wait at a time."""

    def __init__(self, stack: ExitStack, processes: int):
        # only where several processes are asked for
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        context = multiprocessing.get_context("spawn")
        self._pool = stack.enter_context(ProcessPoolExecutor(processes, context))
        self._waiting: deque[Future[None]] = deque()
        self._most = processes + 1

    def store(self, texts: list[str], folder: Path) -> None:
        """Have a block counted and stored."""
        from concurrent.futures.process import BrokenProcessPool

        self.finish(self._most - 1)
        try:
            self._waiting.append(self._pool.submit(_count_and_store, texts, folder))
        except BrokenProcessPool as error:
            raise _broken() from error

    def finish(self, but: int = 0) -> None:
        """Wait for all blocks, but for some."""
        from concurrent.futures.process import BrokenProcessPool

        while len(self._waiting) > but:
            try:
                self._waiting.popleft().result()
            except BrokenProcessPool as error:
                raise _broken() from error


def _broken() -> UsageError:
    return UsageError(
        "a process that counts terms was killed, out of memory perhaps: build again, it resumes; "
        "ask for fewer processes"
    )


def _count_and_store(texts: list[str], folder: Path) -> None:
    store_block(count_block(texts, Analyser()), folder)


def _held(block: CountedBlock) -> BlockSource:
    return lambda: block


def store_block(block: CountedBlock, folder: Path) -> BlockSource:
    """Write a block; its folder appears when all of it is written."""
    draft = draft_of(folder)
    with writing(folder):
        try:
            draft.mkdir()
            for field in fields(block):
                with (draft / f"{field.name}.npy").open("wb") as file:
                    np.save(file, getattr(block, field.name))
                    file.flush()
                    os.fsync(file.fileno())
            draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return partial(_load_block, folder)


def _load_block(folder: Path) -> CountedBlock:
    """Map the arrays of a block."""
    names = [field.name for field in fields(CountedBlock)]
    return CountedBlock(**{name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in names})


@contextmanager
def resumable_spool(folder: Path) -> Iterator[Path]:
    """Yield a folder for the blocks of the index in ``folder``; an interrupted build's blocks are reused.

    It vanishes when the build is done, or where no block was finished. A second process that builds the same
    index at the same time has one of its own, which always vanishes.
    """
    spool = folder.with_name(f".{folder.name}.building")
    with ExitStack() as stack:
        make_folder(folder.parent)
        make_folder(spool)
        inode = spool.stat().st_ino
        try:
            stack.enter_context(sole_writer(spool))
        except UsageError as error:
            if not isinstance(getattr(error.__cause__, "__cause__", None), BlockingIOError):
                raise
            yield stack.enter_context(spool_beside(folder))
            return
        with suppress(OSError):  # another process may have removed it
            if spool.stat().st_ino != inode:
                yield stack.enter_context(spool_beside(folder))
                return
        try:
            yield spool
        except BaseException:
            for draft in spool.glob(".*.tmp"):
                shutil.rmtree(draft, ignore_errors=True)
            with suppress(OSError):
                spool.rmdir()  # a spool with blocks is not empty and stays
            raise
        shutil.rmtree(spool, ignore_errors=True)
