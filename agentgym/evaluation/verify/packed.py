"""Packed runs: a run in one small file without the text of its data.

Actions are written as references: as the index among the admissible actions, or, for typed text, as passages
of the text shown to the agent. With the data, a replay restores the run's own files byte for byte; their
digests are in the packed file. So a run on data that may not be redistributed can be published, and verified
by anyone who has the data.

A packed file is xz over lines of JSON: `PackedHeader`, then a `PackedEpisode` for each line of
``episodes.jsonl``. Recorded answers stand in the header as they are: they name documents by number. So do
transcripts, but only where all tasks and texts ship with the package (`redistributable`). Of the
hash chain each link but the last is kept to its first `LINK_DIGITS` digits, enough to name the step at which
a replay departs; the sha256 of the whole file proves the rest.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.core.episodes import observed_text
from agentgym.core.hashing import canonical_json
from agentgym.data.directory import cache_directory
from agentgym.env import AgentEnv
from agentgym.errors import MissingDataError, MissingPackageError, UntrustedReferenceError, UsageError
from agentgym.evaluation.log.recorded_answers import ANSWERS_FILE, RecordedAnswer, RecordedAnswers
from agentgym.evaluation.log.replay import Replay, ReplayGames
from agentgym.evaluation.log.results import EPISODES_FILE, RUN_FILE, EvalLog, EvalSample, episode_lines
from agentgym.evaluation.log.runfiles import parse_run, write_run
from agentgym.evaluation.log.stored_run import StoredRun
from agentgym.evaluation.log.transcripts import TRANSCRIPTS_FILE, parse_transcripts, read_transcripts
from agentgym.evaluation.suites.suite import PlayedEnv
from agentgym.evaluation.verify.code_digest import suite_code_sha256
from agentgym.io.files import make_folder, replace_file
from agentgym.io.optional import load_reference, only_trusted
from agentgym.io.paths import scratch_directory
from agentgym.io.records import parse
from agentgym.io.untrusted import loads_json
from agentgym.registration import ENVIRONMENTS

if TYPE_CHECKING:
    from rich.console import Console

SUFFIX = ".run.xz"

FORMAT = "agentgym packed run"

PACKED_SCHEMAS = (1, 2)
"""Versions of the format: without transcripts, and with them."""

LINK_DIGITS = 8

MIN_PASSAGE_LENGTH = 6
"""Least characters of a reference to shown text; shorter pieces are written out."""

MAX_REST = 16
"""Most characters of typed text beside shown text; a longer piece is looked up in `SuiteSpec.oracle_only`."""

MAX_UNPACKED_SIZE = 256 << 20
"""Largest size of a packed file after decompression, in bytes."""

MAX_TYPED = 1 << 26
"""Most characters of all actions of a packed run: repeated passages would make a small file a huge one."""

MAX_SAID = 1 << 26
"""Most characters of all messages and responses of a packed run, after expansion from the table of texts."""

_BUILT_IN = ("dataset", "corpus")
"""Options of environments that name the source of texts."""

Piece = Any
"""Encoding of an action: an int, its index among the admissible actions; a str, the action itself; or a list
of pieces of text, each a str, ``[start, length]`` of all text shown so far, or ``[number]`` of a text that
the suite's `agentgym.core.suite_spec.SuiteSpec.oracle_only` yields."""


@dataclass(frozen=True, slots=True)
class PackedHeader:
    """The first line."""

    format: str
    schema: int
    run: Mapping[str, Any]
    """Content of ``run.json``."""
    answers: tuple[RecordedAnswer, ...] = ()
    """Lines of ``answers.jsonl``."""
    transcripts: tuple[str, ...] = ()
    """Lines of ``transcripts.jsonl``; empty for a run whose texts may not be redistributed."""

    @property
    def line(self) -> str:
        """JSON, with keys in the order of ``run.json``, which is written from it again."""
        table = {key: value for key, value in asdict(self).items() if value != ()}
        return json.dumps(table, separators=(",", ":"), ensure_ascii=False)

    @property
    def files(self) -> dict[str, bytes]:
        """Content of the files beside ``run.json``, by name."""
        lines = {ANSWERS_FILE: [answer.line for answer in self.answers], TRANSCRIPTS_FILE: self.transcripts}
        return {
            name: "".join(f"{line}\n" for line in found).encode() for name, found in lines.items() if found
        }


@dataclass(frozen=True, slots=True)
class PackedEpisode:
    """A line: an `EvalSample` without the fields that a replay computes."""

    said: Mapping[str, Any]
    """Fields of the record that a replay cannot compute, or that it checks."""
    actions: str
    """List of `Piece`, as JSON."""
    links: str
    """First digits of each link of the hash chain, and the whole last link."""


_REPLAYED = ("actions", "rewards", "hash_chain", "previous", "episode_return", "length")
"""Fields that are not stored: the replay computes them, and the sha256 of the whole file checks them."""


def redistributable(env: PlayedEnv) -> bool:
    """Return whether what an environment shows may be passed on: its tasks and texts ship with the package.

    Example:
        >>> redistributable(PlayedEnv("agentgym/ALFWorld-v0", "ALFWorld", "valid_seen", 5))
        True
        >>> official = {"dataset": "alfworld/json_2.1.1"}
        >>> redistributable(PlayedEnv("agentgym/ALFWorld-v0", "ALFWorld", "valid_seen", 5, kwargs=official))
        False
    """
    return env.id in ENVIRONMENTS and all(env.kwargs.get(name, "builtin") == "builtin" for name in _BUILT_IN)


def pack_run(run: StoredRun, out_dir: Path, *, allow: Collection[str] = (), transcripts: bool = True) -> Path:
    """Pack a complete run into ``out_dir/SUITE/``, named as the run's folder; ``allow`` as `verify_run`.

    ``transcripts``: keep what a model was sent and said, where it may be passed on and is no longer than
    `MAX_SAID`. `UsageError` where the run is not complete, or does not replay.
    """
    with only_trusted(allow), ExitStack() as stack:
        log, samples = run.log, run.samples
        if log.episodes_sha256 != run.lines.sha256:
            raise UsageError(f"{run.folder} is incomplete or was changed; run the same bench command again")
        games = ReplayGames([found.env for found in log.envs], run.answers, stack, log.state_schemas)
        texts = _transcripts(run) if transcripts else ()
        schema = PACKED_SCHEMAS[bool(texts)]
        lines = [PackedHeader(FORMAT, schema, json.loads(log.text), tuple(run.answers), texts).line]
        lines += [canonical_json(asdict(_pack(sample, *games.of(sample.env)))) for sample in samples]
    path = out_dir / log.suite.name / f"{log.folder_name}{SUFFIX}"
    make_folder(path.parent)
    replace_file(path, lzma.compress("".join(f"{line}\n" for line in lines).encode(), preset=9))
    return path


def _transcripts(run: StoredRun) -> tuple[str, ...]:
    """Return the lines of a run's transcripts; none where they may not be passed on, or are too long."""
    if not run.has_transcripts or not all(redistributable(found.env) for found in run.log.played):
        return ()
    if run.log.transcripts_sha256 != run.digests[TRANSCRIPTS_FILE]:
        raise UsageError(f"{run.folder / TRANSCRIPTS_FILE} was changed; restore it, or remove it")
    records = read_transcripts(run.folder)
    return tuple(record.line for record in records) if sum(r.length for r in records) <= MAX_SAID else ()


def open_packed(
    data: bytes,
    where: str,
    path: Path,
    suites: Mapping[str, Path] | None = None,
    *,
    allow: Collection[str] = (),
    console: Console | None = None,
) -> StoredRun:
    """Unpack a packed file's ``data`` into the cache, or a temporary folder where that cannot be written.

    ``where`` names it in messages.

    The environments opened are those of the suite, not those that the run claims. Its own suite is looked up
    above ``path``, the file that the data is from; other arguments as `open_run`.
    """
    header, packed = read_packed(data, where)
    log = parse_run(dict(header.run), where)
    run = StoredRun(path, path, log, sha256(log.text.encode()).hexdigest(), suites or {})
    suite = run.suite
    if log.suite_sha256 != suite.sha256:  # the suite names files: this check comes first
        raise UsageError(f"{where}: made for another suite than {suite.name} {suite.version}")
    expected = sum(found.env.count for found in log.played) * suite.attempts
    if len(packed) < expected:
        raise UsageError(f"{where} has {len(packed):,} of {expected:,} episodes; pack the whole run")
    name = Path(where).name.removesuffix(SUFFIX).strip(".") or "run"  # "." and ".." would name another folder
    code = suite_code_sha256(suite, log.agent.kind)
    folder = cache_directory() / "runs" / f"{sha256(data).hexdigest()[:32]}-{code[:16]}" / name
    if not (folder / RUN_FILE).exists():
        with only_trusted(allow), ExitStack() as stack:
            games = PackedGames(suite.env, RecordedAnswers(header.answers), stack, log.state_schemas)
            samples = _unpack_all(packed, games, log, where, console)
        _check_transcripts(header, log, where)
        folder = scratch_directory(folder.parent) / name
        _write_unpacked(folder, log, samples, header.files, where)
    return replace(run, folder=folder, given=suite)


def _unpack_all(
    packed: Sequence[PackedEpisode], games: PackedGames, log: EvalLog, where: str, console: Console | None
) -> list[EvalSample]:
    from rich.progress import track

    samples, previous = [], log.request_id
    title = f"unpacking {log.agent.display_name}"
    lines = track(packed, title, console=console, disable=console is None, show_speed=False)
    for number, line in enumerate(lines, start=1):
        try:
            samples.append(_unpack(line, games, previous))
        except (MissingDataError, MissingPackageError, UntrustedReferenceError):
            raise
        except UsageError as error:
            raise UsageError(f"{where}, episode {number}: {error}") from error
        previous = samples[-1].line_sha256
    return samples


def _check_transcripts(header: PackedHeader, log: EvalLog, where: str) -> None:
    """Refuse transcripts that contain a data set's text, are malformed, or expand to too much text."""
    if header.transcripts and not all(redistributable(found.env) for found in log.played):
        raise UsageError(f"{where} may not be passed on: it shows texts of a data set; pack the run again")
    room = MAX_SAID
    for number, record in parse_transcripts(header.files.get(TRANSCRIPTS_FILE, b"")):
        if isinstance(record, str):
            raise UsageError(f"{where}, transcript {number}: {record}")
        room -= record.length
        if room < 0:
            raise UsageError(f"{where}: its transcripts have more than {MAX_SAID:,} characters")


def _write_unpacked(
    folder: Path, log: EvalLog, samples: Sequence[EvalSample], beside: Mapping[str, bytes], where: str
) -> None:
    digests = {
        EPISODES_FILE: log.episodes_sha256,
        ANSWERS_FILE: log.answers_sha256,
        TRANSCRIPTS_FILE: log.transcripts_sha256,
    }
    make_folder(folder)
    for name, content in {EPISODES_FILE: episode_lines(samples), **beside}.items():
        if sha256(content).hexdigest() != digests[name]:
            raise UsageError(f"{where}: unpacked, {name} is not what the run's digest is of; pack it again")
        replace_file(folder / name, content)
    write_run(folder, log)  # written last: it marks the folder as complete


class PackedGames(ReplayGames):
    """Environments of a packed run, with the rest of its budget of action text."""

    def __init__(self, *arguments: Any):
        """Begin with `MAX_TYPED` characters; arguments as `ReplayGames` takes them."""
        super().__init__(*arguments)
        self.room = MAX_TYPED
        """Characters that the actions still to be read may have."""


def read_packed(data: bytes, where: str) -> tuple[PackedHeader, list[PackedEpisode]]:
    """Read a packed file, and play nothing; UsageError where it is damaged."""
    decompressor = lzma.LZMADecompressor(memlimit=MAX_UNPACKED_SIZE)
    try:
        text = decompressor.decompress(data, max_length=MAX_UNPACKED_SIZE)
        if not decompressor.eof:
            raise UsageError(f"{where} is cut off, or over {MAX_UNPACKED_SIZE >> 20} MiB; get it again")
        lines = [loads_json(line, where) for line in text.splitlines()]
    except lzma.LZMAError as error:
        raise UsageError(f"{where} is not a packed run ({error}); get it again") from error
    if not lines or not isinstance(lines[0], dict) or lines[0].get("format") != FORMAT:
        raise UsageError(f"{where} is not a packed run; name a file that `agentgym leaderboard pack` wrote")
    header = parse(PackedHeader, lines[0], f"{where}, line 1")
    if header.schema not in PACKED_SCHEMAS:
        raise UsageError(f"{where}: schema {header.schema} is neither 1 nor 2; pack the run again")
    return header, [parse(PackedEpisode, line, f"{where}, line {n}") for n, line in enumerate(lines[1:], 2)]


# --- one episode ------------------------------------------------------------------------------------


def _pack(episode: EvalSample, game: AgentEnv[Any], env: PlayedEnv) -> PackedEpisode:
    replay = Replay.begin(game, env, episode.task_id, episode.seed, episode.rollout)
    shown = _Shown(game)
    pieces = []
    for action in episode.actions:
        admissible = shown.add(replay)
        pieces.append(admissible.index(action) if action in admissible else shown.pieces(action))
        replay.step(action)
    if tuple(replay.links) != episode.hash_chain:
        raise UsageError(f"episode {episode.id} comes out otherwise: verify the run first")
    links = "".join(link[:LINK_DIGITS] for link in replay.links[:-1]) + replay.links[-1]
    fields = {key: value for key, value in json.loads(episode.line).items() if key not in _REPLAYED}
    return PackedEpisode(fields, canonical_json(pieces), links)


def replay_packed(packed: PackedEpisode, games: PackedGames, previous: str) -> tuple[EvalSample, EvalSample]:
    """Play an episode's actions; return the record that they make, and the one that the file holds.

    ``previous``: sha256 of the line before. `UsageError` where the actions cannot be played, or states and
    rewards differ.
    """
    blank = {"actions": [], "rewards": [], "hash_chain": [], "episode_return": 0.0, "length": 0}
    claimed = parse(EvalSample, {**packed.said, **blank, "previous": previous}, "said")
    if claimed.seed < 0:
        raise UsageError(f"seed {claimed.seed} is none: seeds begin at 0")
    replay = Replay.begin(*games.of(claimed.env), claimed.task_id, claimed.seed, claimed.rollout)
    shown = _Shown(replay.game)
    pieces = loads_json(packed.actions, "actions")
    if not isinstance(pieces, list):
        raise UsageError(f"actions are a list, got {pieces!r:.40}")
    _check_link(replay, packed.links, last=not pieces)
    for number, piece in enumerate(pieces, start=1):
        if replay.over:
            raise UsageError(f"continues after its end at step {number - 1}")
        action = shown.text(piece, shown.add(replay), games.room)
        games.room -= len(action)
        replay.step(action)
        _check_link(replay, packed.links, last=number == len(pieces))
    record = replay.record(claimed)
    if isinstance(record, str):
        raise UsageError(record)
    return record, replace(record, **{key: getattr(claimed, key) for key in packed.said})


def _unpack(packed: PackedEpisode, games: PackedGames, previous: str) -> EvalSample:
    record, claimed_record = replay_packed(packed, games, previous)
    try:
        lines = [again.line.encode() for again in (record, claimed_record)]
    except ValueError as error:  # an infinite number, or half a surrogate pair
        raise UsageError(f"is damaged: {error}") from error
    if lines[0] != lines[1]:
        raise UsageError("comes out otherwise than it says")
    return record


def _check_link(replay: Replay, links: str, *, last: bool) -> None:
    turn = len(replay.rewards)
    stored_links = (
        links[turn * LINK_DIGITS :] if last else links[turn * LINK_DIGITS : (turn + 1) * LINK_DIGITS]
    )
    if stored_links != (replay.links[-1] if last else replay.links[-1][:LINK_DIGITS]):
        raise UsageError(f"comes out otherwise at step {turn}")


class _Shown:
    """All text shown to an agent in an episode, and texts that its suite's oracle knows."""

    def __init__(self, game: AgentEnv[Any]) -> None:
        self._game = game
        self._text = ""

    def _unquoted(self) -> Iterator[str]:
        reference = self._game.suite_spec.oracle_only
        return iter(()) if reference is None else load_reference(reference, trusted=True)(self._game)

    def add(self, replay: Replay) -> tuple[str, ...]:
        """Add the present observation; return the admissible actions."""
        self._text += f"{observed_text(replay.observation)}\n"
        admissible: tuple[str, ...] = replay.info["admissible_actions"]
        return admissible

    def pieces(self, action: str) -> list[Piece]:
        """Write typed text as the longest possible passages of shown text, and as the oracle's own texts."""
        pieces = self._passages(action)
        if max((len(piece) for piece in pieces if isinstance(piece, str)), default=0) >= MAX_REST:
            within = ((number, text) for number, text in enumerate(self._unquoted()) if text in action)
            number, text = max(within, key=lambda found: len(found[1]), default=(0, ""))
            if len(text) >= MIN_PASSAGE_LENGTH:
                before, after = action.split(text, 1)
                return [*self.pieces(before), [number], *self.pieces(after)]
        return pieces

    def _passages(self, action: str) -> list[Piece]:
        pieces: list[Piece] = []
        start = 0
        while start < len(action):
            length = self._longest(action, start)
            if length >= MIN_PASSAGE_LENGTH:
                pieces.append([self._text.index(action[start : start + length]), length])
                start += length
            else:
                if pieces and isinstance(pieces[-1], str):
                    pieces[-1] += action[start]
                else:
                    pieces.append(action[start])
                start += 1
        return pieces

    def text(self, piece: Piece, admissible: tuple[str, ...], room: int) -> str:
        """Return the action that was written; UsageError where it names nothing, or has no room."""
        if isinstance(piece, str):
            return piece
        if type(piece) is int and 0 <= piece < len(admissible):
            return admissible[piece]
        if not isinstance(piece, list):
            raise UsageError(f"action {piece!r:.40} names none that is admissible")
        passages = []
        for part in piece:
            passages.append(self._passage(part))
            room -= len(passages[-1])
            if room < 0:
                raise UsageError(f"its actions have more than {MAX_TYPED:,} characters")
        return "".join(passages)

    def _longest(self, action: str, start: int) -> int:
        low, high = 0, len(action) - start
        while low < high:  # bisection: every prefix of a shown passage is shown
            middle = (low + high + 1) // 2
            if action[start : start + middle] in self._text:
                low = middle
            else:
                high = middle - 1
        return low

    def _passage(self, part: Piece) -> str:
        if isinstance(part, str):
            return part
        if isinstance(part, list) and len(part) == 1 and type(part[0]) is int and part[0] >= 0:
            text = next(islice(self._unquoted(), part[0], None), None)
            if text is not None:
                return text
        if isinstance(part, list) and len(part) == 2 and all(type(number) is int for number in part):
            start, length = part
            if 0 <= start and 0 < length and start + length <= len(self._text):
                return self._text[start : start + length]
        raise UsageError(f"action holds {part!r:.40}, which is not part of what was shown")
