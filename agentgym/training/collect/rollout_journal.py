"""Journal of a run's rollouts: a killed run resumes its open episodes, from their last finished turns.

Every completion is appended to a file of the current iteration: one line, in one write, for each sampled
batch. A resumed run begins pending groups from their seeds, and its policy recalls the answers of the journal
instead of sampling them again. So each episode reaches its old state, in any suite, and so does the rest:
slots, queries, counts, the batches of requests. A snapshot would restore the environment alone, and a step of
a game costs microseconds beside the milliseconds of an answer. An answer is recalled only in its own state
and after the same actions: where a game's partner answers differently, the episode is sampled from there.

Samples of weights newer than the restored ones are dropped, since those weights are lost. Each line has
a keyed hash, so that half a line, a damaged one, or one of other settings or weights is never played.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

from agentgym.core.types import Completion, Request
from agentgym.io.files import make_folder, writing
from agentgym.io.untrusted import read_lines
from agentgym.rollout.stored_episode import pack_completion, unpack_completion
from agentgym.training.learner.distributed import Ranks

FOLDER = "journal"
_NAME = re.compile(r"(\d+)-(\d+)\.journal")
_JSON = json.JSONEncoder(separators=(",", ":"))

_Entry: TypeAlias = tuple[int, int, str, dict[str, Any]]
"""Sampling seed and turn of a request, hash of its past, completion."""
_Answers: TypeAlias = dict[int, dict[int, tuple[bool, str | None, dict[str, Any]]]]
"""Journalled answers by sampling seed and turn: whether it is counted, hash of the past, completion."""


class RolloutJournal:
    """Files of completions by iteration and rank, in a run's folder.

    Killing the process loses nothing that `append` has written; a power cut may lose lines that are not yet
    on the disk, whose turns are sampled again. The files that the last checkpoint and the next one may need
    are kept, however many iterations lie between them.
    """

    def __init__(self, folder: Path, key: str, *, staleness: int = 0, ranks: Ranks | None = None):
        """Bind the folder, made at the first completion; `resume` before anything else.

        ``key``: of what completions follow from; ``staleness``: most updates that a group may be pending for.
        """
        self._folder = folder
        self._key = key.encode()[:64]
        self._staleness = staleness
        self._ranks = ranks or Ranks()
        self._saved = 0
        self._iteration: int | None = None
        self._file: io.FileIO | None = None
        self._recalled: _Answers = {}
        self._lock = Lock()

    def resume(self, iteration: int, version: int) -> None:
        """Begin after an iteration with weights of a version; all ranks have to call it.

        Removes whatever no longer belongs to the run.
        """
        if self._ranks.is_first:
            for path, _ in self._files():
                draft = path.with_suffix(".draft")
                with writing(path), draft.open("wb") as file:
                    file.writelines(map(self._line, self._valid(path, version)))
                with writing(path):
                    draft.replace(path)
        self._saved = iteration
        self._ranks.from_first(True)  # returns only when the first rank's files are complete
        self._load()
        self._turn_to(iteration + 1)

    def begin(self, iteration: int) -> None:
        """Write to the files of an iteration from now on."""
        if self._iteration is not None:
            self._turn_to(iteration)
            self._remove(lambda number: self._saved + 2 < number < iteration - self._staleness)

    def saved(self, iteration: int, *, again: bool = False) -> None:
        """Take note of a checkpoint, where a resumed run begins; with ``again`` pending groups do too."""
        if self._iteration is not None:
            self._saved = iteration
            self._remove(lambda number: number <= iteration - self._staleness)
            if again:
                self._load()

    def recall(self, request: Request) -> tuple[Completion, bool] | None:
        """Return the completion of a request, the first time that it is asked for; None without any.

        With it, whether the checkpoint's counts of steps and tokens hold it.
        """
        with self._lock:
            turns = self._recalled.get(request.seed, {})
            counted, past, packed = turns.pop(request.turn, (False, None, {}))
            if past == _past(request):
                return unpack_completion(packed), counted
            self._recalled.pop(request.seed, None)  # the episode departs from the journal here
            return None

    def append(self, requests: Sequence[Request], completions: Sequence[Completion]) -> None:
        """Append the completions of one batch, except those with an error, which no resumed run needs."""
        pairs = zip(requests, completions, strict=True)
        entries = [
            (request.seed, request.turn, _past(request), pack_completion(completion))
            for request, completion in pairs
            if completion.error is None
        ]
        if not entries:
            return
        line = self._line(entries)
        with self._lock:
            if self._iteration is None:  # never begun, or closed
                return
            path = self._folder / f"{self._iteration:06d}-{self._ranks.rank}.journal"
            with writing(path):
                if self._file is None:
                    make_folder(self._folder)
                    self._file = io.FileIO(path, "a")
                self._file.write(line)

    def close(self) -> None:
        """End the file; nothing is written any more."""
        self._turn_to(None)

    # ---- inside -----------------------------------------------------------------------------

    def _load(self) -> None:
        """Load the completions since the last checkpoint, and earlier ones of groups pending at it."""
        recalled: _Answers = {}
        for path, iteration in self._files():
            if iteration > self._saved - self._staleness:
                for seed, turn, past, packed in chain.from_iterable(self._valid(path)):
                    recalled.setdefault(seed, {})[turn] = iteration <= self._saved, past, packed
        with self._lock:
            self._recalled = recalled

    def _turn_to(self, iteration: int | None) -> None:
        with self._lock:
            self._iteration = iteration
            if self._file is not None:
                self._file.close()
                self._file = None

    def _files(self) -> list[tuple[Path, int]]:
        """Return the files and their iterations, oldest first."""
        names = sorted(path.name for path in self._folder.glob("*")) if self._folder.is_dir() else []
        found = [_NAME.fullmatch(name) for name in names]
        return [(self._folder / match[0], int(match[1])) for match in found if match is not None]

    def _remove(self, unneeded: Callable[[int], bool]) -> None:
        """Remove the files of some iterations."""
        for path, iteration in self._files() if self._ranks.is_first else ():
            if unneeded(iteration):
                with writing(path):
                    path.unlink(missing_ok=True)

    def _line(self, entries: Sequence[_Entry]) -> bytes:
        body = _JSON.encode(entries).encode()
        return b"%b\t%b\n" % (self._hash(body), body)

    def _hash(self, body: bytes) -> bytes:
        return blake2b(body, key=self._key, digest_size=8).hexdigest().encode()

    def _valid(self, path: Path, version: int | None = None) -> Iterator[list[_Entry]]:
        """Yield the entries of each undamaged line of this run, up to a version of the weights."""
        for line in read_lines(path, "remove it: its episodes are then played anew"):
            digest, _, body = line.rstrip(b"\n").partition(b"\t")
            if body and digest == self._hash(body):
                entries = [each for each in json.loads(body) if version is None or _newest(each) <= version]
                if entries:
                    yield entries


def _past(request: Request) -> str:
    """Return a hash of the state and of the actions that led to it, since prompts contain these, too."""
    past = [request.state_hash, *(step.completion.action for step in request.history)]
    return blake2b("\0".join(past).encode(), digest_size=16).hexdigest()


def _newest(entry: _Entry) -> int:
    """Return the newest version of the weights that sampled a completion."""
    completion = unpack_completion(dict(entry[-1]))
    return max((completion.version, *completion.versions))
