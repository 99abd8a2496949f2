"""The vectors of a corpus in a file, float16: encoded block by block, so that a killed build resumes.

While it is built, an index's vectors stand in a hidden folder beside it, with a journal of finished blocks:
the sha256 of the corpus up to there, and of the block's bytes. Another encoder begins anew; another corpus
keeps the blocks before the first document that differs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from agentgym.errors import UsageError
from agentgym.io.files import Journal, make_folder, sha256_of, sole_writer, writing
from agentgym.io.untrusted import loads_json
from agentgym.retrieval.encoders import TextEncoder
from agentgym.retrieval.index import MANIFEST, NOT_RANKED, CorpusDigest, Manifest, put_in_place
from agentgym.retrieval.inner_products import Halves, row_sums

BLOCK: Final = 512
"""Documents in a block, after which a build resumes."""

VECTORS: Final = "vectors.f16"
IDS: Final = "ids.npy"
_JOURNAL = "blocks.jsonl"


class EncodedCorpus(NamedTuple):
    """Facts about a corpus's complete vectors."""

    folder: Path
    """Folder with the vectors, which becomes the index's."""
    digest: CorpusDigest
    longest: float
    """Largest length of a vector."""
    sha256: str
    """Digest of the vectors' bytes."""


@contextmanager
def encoded(
    documents: Iterable[tuple[str, str]],
    encoder: TextEncoder,
    folder: Path,
    progress: Callable[[int], None],
) -> Iterator[EncodedCorpus]:
    """Encode a corpus, or the rest of it; yield the draft that takes the name ``folder`` afterwards."""
    draft = folder.with_name(f".{folder.name}.encoding")
    make_folder(draft)
    with sole_writer(draft):
        corpus = _encode(documents, encoder, draft, progress)
        with writing(folder):
            np.save(draft / IDS, corpus.digest.id_column())
        yield corpus
        with writing(folder):
            put_in_place(draft, folder)
            (folder / _JOURNAL).unlink()


def open_vectors(folder: Path, manifest: Manifest) -> tuple[Halves, npt.NDArray[np.bytes_]]:
    """Map the vectors and ids of an index."""
    count, dimensions = manifest.count, int(manifest.parameters["dimensions"])
    path = folder / VECTORS
    try:
        size = path.stat().st_size
        if size != 2 * count * dimensions:
            raise ValueError(f"{VECTORS} has {size:,} bytes, not {2 * count * dimensions:,}")
        ids = open_ids(folder, manifest)
        if not count:
            return np.zeros((0, dimensions), np.float16), ids
        return np.asarray(np.memmap(path, np.float16, "r", shape=(count, dimensions))), ids
    except UsageError:
        raise
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder} is not a complete index ({error}): delete and rebuild it") from error


def open_ids(folder: Path, manifest: Manifest) -> npt.NDArray[np.bytes_]:
    """Map the ids of an index's documents."""
    try:
        ids: npt.NDArray[np.bytes_] = np.asarray(np.load(folder / IDS, mmap_mode="r"))
        if ids.shape != (manifest.count,) or ids.dtype.kind != "S":
            raise ValueError(f"{IDS} holds no {manifest.count} ids")
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder} is not a complete index ({error}): delete and rebuild it") from error
    return ids


def check_encoder(folder: Path, manifest: Manifest, encoder: TextEncoder) -> None:
    """Refuse an encoder whose vectors are not those of an index; the message names the difference."""
    given: dict[str, Any] = {**encoder.text_parameters, **encoder.parameters}
    found: dict[str, Any] = {**manifest.text_parameters, **manifest.parameters}
    for name, value in given.items():
        if name not in NOT_RANKED and found.get(name) != value:
            raise UsageError(
                f"the index {folder} was encoded with {name} {found.get(name)!r:.80}, not {value!r:.80}: "
                "open it with that encoder, or delete it and build it again"
            )


def write_manifest(corpus: EncodedCorpus, manifest: Manifest) -> None:
    """Write the manifest beside the vectors."""
    with writing(corpus.folder):
        (corpus.folder / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")


def vectors_sha256(folder: Path) -> str:
    """Return the sha256 of an index's vectors, read anew."""
    return sha256_of(folder / VECTORS)


def _encode(
    documents: Iterable[tuple[str, str]],
    encoder: TextEncoder,
    draft: Path,
    progress: Callable[[int], None],
) -> EncodedCorpus:
    dimensions = int(encoder.parameters["dimensions"])
    finished = _finished(draft, encoder)
    digest, whole, longest = CorpusDigest(), hashlib.sha256(), 0.0
    stream = iter(documents)
    with Journal(draft / _JOURNAL) as journal, (draft / VECTORS).open("r+b") as file, writing(draft):
        for number in range(1 << 62):
            block = list(islice(stream, BLOCK))
            if not block:
                break
            for id, text in block:
                digest.add(id, text)
            size = 2 * dimensions * len(block)
            raw = file.read(size) if number < len(finished) else b""
            line = {"corpus": digest.hexdigest(), "vectors": hashlib.sha256(raw).hexdigest()}
            if number >= len(finished) or finished[number] != line:
                finished = finished[:number]
                file.seek(whole_bytes := 2 * dimensions * BLOCK * number)
                file.truncate(whole_bytes)
                raw = _block(encoder, block)
                file.write(raw)
                file.flush()
                line["vectors"] = hashlib.sha256(raw).hexdigest()
                journal.append(json.dumps({"number": number, **line}))
            whole.update(raw)
            longest = max(longest, _longest(raw, dimensions))
            progress(len(digest.ids))
        file.truncate(2 * dimensions * len(digest.ids))
    return EncodedCorpus(draft, digest, longest, whole.hexdigest())


def _block(encoder: TextEncoder, block: list[tuple[str, str]]) -> bytes:
    vectors = encoder.encode_passages([text for _, text in block])
    with np.errstate(over="ignore"):
        halves = vectors.astype(np.float16)
    finite = np.isfinite(halves).all(axis=1)
    if not finite.all():
        raise UsageError(
            f"the vector of document {block[int(np.argmin(finite))][0]!r:.60} is not finite: choose another "
            "encoder, or a dtype of more range"
        )
    return halves.tobytes()


def _finished(draft: Path, encoder: TextEncoder) -> list[Mapping[str, str]]:
    """Return the digests of the blocks that an earlier run finished with this encoder; else begin anew."""
    first = {"block": BLOCK, "encoder": {**encoder.text_parameters, **encoder.parameters}}
    path = draft / _JOURNAL
    lines: list[Any] = []
    with suppress(OSError, UsageError):
        raw = path.read_bytes().split(b"\n")[:-1]  # the rest after the last line break was cut off
        lines = [loads_json(line, str(path)) for line in raw]
    blocks: list[Mapping[str, str]] = []
    if lines and lines[0] == first and (draft / VECTORS).exists():
        for line in lines[1:]:
            number = line.pop("number")
            blocks[number:] = [line]  # a block that was written again makes those behind it void
        return blocks
    with writing(draft):
        (draft / VECTORS).write_bytes(b"")
        path.write_text(json.dumps(first) + "\n", encoding="utf-8")
    return []


def _longest(raw: bytes, dimensions: int) -> float:
    wide = np.frombuffer(raw, np.float16).reshape(-1, dimensions).astype(np.float64)
    return float(np.sqrt(row_sums(wide * wide).max(initial=0.0)))
