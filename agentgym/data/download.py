"""Downloading a set of files into the cache, unpacking them, and handing them on: whole or not at all."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from agentgym.data.archives import DAMAGE, tar_items
from agentgym.data.fetching import Fetcher
from agentgym.data.importing import copy_file
from agentgym.data.progress import progress_bar
from agentgym.data.sources import SourceFile, source_list
from agentgym.errors import UsageError
from agentgym.io.files import make_folder, replace_file, sole_writer, writing
from agentgym.io.paths import CACHE_VARIABLE, DATA_VARIABLE, cache_directory, data_directory
from agentgym.io.records import parse
from agentgym.io.untrusted import read_json

Result: TypeAlias = Mapping[str, Any]
"""What a set has become on this machine: a sha256 or a size by the name of each file."""


@dataclass(slots=True)
class _Record:
    """What is known of a set on this machine; it outlives the fetched files."""

    seen: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Size and sha256 of files whose list says none, as they came first."""
    result: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write it beside the folder of the fetched files."""
        replace_file(folder.with_name(f"{folder.name}.json"), json.dumps(asdict(self), indent=1) + "\n")


def download(
    name: str,
    fetcher: Fetcher,
    finish: Callable[[Path], Result],
    present: Callable[[], Result],
    *,
    keep: bool = False,
) -> bool:
    """Fetch the files of a set and finish them; return False where that has been done before.

    ``finish`` imports the folder with all of the files and returns what they have become; the set is not
    fetched while ``present``, which returns what is here, has all of that. What is fetched stays until the
    set is finished, with ``keep`` beyond that, and the next call goes on from there. A second process waits
    for the first. `UsageError` where a file cannot be fetched or read, or there is no room.
    """
    folder = cache_directory() / "downloads" / name
    path = folder.with_name(f"{name}.json")
    listed = source_list().set[name]
    locked = folder.with_name(listed.source or listed.corpus)  # sets of one source are imported one by one
    make_folder(folder)
    make_folder(locked)
    try:
        with sole_writer(locked):
            pass
    except UsageError as error:
        fetcher.say(str(error))
    with sole_writer(locked, patience=math.inf):
        record = parse(_Record, read_json(path), str(path)) if path.exists() else _Record()
        is_new = not record.result or not record.result.items() <= present().items()
        if is_new:
            with writing(folder, f"set {CACHE_VARIABLE} elsewhere"):
                with progress_bar(name, transfer=True) as fetcher.progress:
                    copy = _fetch_any(name, folder, fetcher, record)
                record.result = dict(finish(copy))
                record.write(folder)
        for found in () if keep else folder.iterdir():
            shutil.rmtree(found) if found.is_dir() else found.unlink()
    return is_new


def _fetch_any(name: str, folder: Path, fetcher: Fetcher, record: _Record) -> Path:
    """Fetch and unpack the first option of a set that can be had; return the folder of its files."""
    listed, files = source_list().set[name], source_list().files(name)
    fetcher.terms = listed.terms
    options = [[*group] for _, group in groupby(files, key=lambda file: file.option)]
    for option in options:
        copy = folder / f"copy-{option[0].option}"
        try:
            _check_room(name, option, folder, twice=not listed.adopt)
            fetcher.done, fetcher.total = 0, sum(file.size or 0 for file in option)
            _fetch(name, option, folder, copy, fetcher, record)
            break
        except UsageError as error:
            if option is options[-1]:
                raise
            fetcher.say(f"{error}: taking other files in its place")
    if listed.tree_sha256:
        shutil.rmtree(copy, ignore_errors=True)
        archive = folder / option[0].target
        try:
            if (tree := _unpack(archive, copy, limit=2 * option[0].unpacked)) != listed.tree_sha256:
                raise UsageError(
                    f"the files of {name} come to {tree}, not {listed.tree_sha256}: fetch it again"
                )
        except UsageError:
            archive.unlink()  # the next call fetches it anew
            raise
    return copy


def _fetch(
    name: str, files: Sequence[SourceFile], folder: Path, copy: Path, fetcher: Fetcher, record: _Record
) -> None:
    """Fetch files into the folder, those that are no archives into the copy; what is there is checked."""
    for target, parts in groupby(files, key=lambda file: file.target):
        base = 0
        for file in parts:
            path = (folder if file.unpacked else copy) / target
            draft = path.with_name(f"{path.name}.part")
            if path.exists():
                path.replace(draft)
            seen = record.seen.get(file.name, {})
            try:
                size, sha256 = fetcher.fetch(name, replace(file, **seen), draft, base=base)
            except UsageError as error:
                known = f"; {folder}.json has what came first: delete it if that was wrong" if seen else ""
                raise UsageError(f"{error}{known}") from error
            if file.sha256 is None and not seen and not file.unpacked:  # else its content is checked
                record.seen[file.name] = {"size": size, "sha256": sha256}
                record.write(folder)
            base += size
        os.truncate(draft, base)
        draft.replace(path)


def _check_room(name: str, files: Sequence[SourceFile], folder: Path, *, twice: bool) -> None:
    """Refuse a set for which a disk has no room: to fetch, to unpack, and unless adopted to import it."""
    fetched = sum((file.size or 0) + file.unpacked for file in files) - sum(sizes_in(folder).values())
    imported = sum(file.unpacked or file.size or 0 for file in files) if twice else 0
    target = next(path for path in (data_directory(), *data_directory().absolute().parents) if path.exists())
    on_one_disk = target.stat().st_dev == folder.stat().st_dev
    for at, need in ((folder, max(0, fetched) + imported * on_one_disk), (target, imported)):
        if (free := shutil.disk_usage(at).free) < need:
            raise UsageError(
                f"{name} needs {need / 1e9:,.1f} GB, and {at} has {free / 1e9:,.1f} GB free: free space, or "
                f"set {CACHE_VARIABLE} or {DATA_VARIABLE} to a larger disk"
            )


def _unpack(archive: Path, folder: Path, *, limit: int) -> str:
    """Write the text files in the folders of a tar archive's top folder, of ``limit`` bytes at most.

    Return the sha256 of a line for each file, as ``sha256sum`` writes it, sorted by path.
    """
    digests = {}
    try:
        with archive.open("rb") as raw:
            for item, content in tar_items(raw):
                parts = PurePosixPath(item.name).parts[1:]
                # beside the folders is LICENSE.txt, which is no level
                if content is None or len(parts) < 2 or not item.name.endswith(".txt"):
                    continue
                limit -= item.size + tarfile.BLOCKSIZE
                if limit < 0 or ".." in parts:
                    raise UsageError(f"{archive}: {item.name!r:.80} should not be in it: fetch it again")
                data = content.read()
                make_folder(folder.joinpath(*parts).parent)
                folder.joinpath(*parts).write_bytes(data)
                digests["/".join(parts)] = hashlib.sha256(data).hexdigest()
    except DAMAGE as error:
        raise UsageError(f"{archive} cannot be unpacked ({error}): fetch it again, or free space") from error
    lines = (f"{digest}  {path}\n" for path, digest in sorted(digests.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def place(copy: Path, target: Path) -> Result:
    """Put the files of a copy into a folder, each whole or not at all; return their sizes by name."""
    sizes = sizes_in(copy)
    for name in sizes:
        at = target / name
        draft = at.with_name(f".{at.name}.placing")
        with writing(at, f"set {DATA_VARIABLE} elsewhere"):
            at.parent.mkdir(parents=True, exist_ok=True)
            draft.unlink(missing_ok=True)
            try:
                os.link(copy / name, draft)
            except OSError:  # another disk, or one without links
                copy_file(copy / name, draft)
            draft.replace(at)
    return sizes


def sizes_in(folder: Path) -> Mapping[str, int]:
    """Return the sizes of the files in a folder, by name."""
    found = folder.rglob("*") if folder.is_dir() else ()
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in found if path.is_file()}
