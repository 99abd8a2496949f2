"""Models of the Hugging Face hub: the files of a repository as a directory of this machine.

Every model, reward model, selector and encoder is named so: the path of a directory, or ``OWNER/NAME``,
``OWNER/NAME@REVISION`` of the hub. What records a model records the commit, or the sha256 of its files.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentgym.errors import MissingDataError, UsageError
from agentgym.io.optional import load

TOKENIZER_FILES = ("*.json", "*.jinja", "*.model", "*.txt", "*.tiktoken")
"""Patterns of a tokenizer's files, and of configurations."""

MODEL_FILES = (*TOKENIZER_FILES, "*.safetensors")
"""Patterns of a model's files: the tokenizer's, and weights that hold tensors alone."""

_ID = re.compile(r"(?P<repository>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(@(?P<revision>[\w./-]+))?")

_COMMIT = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*@[0-9a-f]{40}")


def model_directory(name: str, files: tuple[str, ...] = MODEL_FILES, extra: str = "train") -> Path:
    """Return the directory of a model, fetching a repository's files where they are missing.

    Where nothing has the path ``name``, it is ``OWNER/NAME`` or ``OWNER/NAME@REVISION`` of the hub.
    ``HF_HUB_OFFLINE``, ``HF_HOME``, ``HF_ENDPOINT`` and the other variables of `huggingface_hub` hold.
    ``files``: patterns of the repository's files that are needed; ``extra``: of this package, for the
    message where `huggingface_hub` is missing. `UsageError` where there is neither, `MissingDataError` where
    the hub cannot be reached.
    """
    found, path = _repository(name), Path(name).expanduser()
    if found is not None:
        return _snapshot(found["repository"], found["revision"], files, extra)
    if not path.exists():
        raise UsageError(
            f"the model directory {name} does not exist: give the path of a saved model, or OWNER/NAME of "
            "the Hugging Face hub"
        )
    return path


def repository_of(name: str) -> str:
    """Return ``OWNER/NAME`` where a name is a repository's; empty where it is a path."""
    found = _repository(name)
    return "" if found is None else found["repository"]


def pinned(name: str, extra: str = "train") -> str:
    """Return a model's name with its repository's commit, which a resumed run goes on with."""
    repository = repository_of(name)
    return f"{repository}@{model_directory(name, extra=extra).name}" if repository else name


def without_places(options: Mapping[str, Any], places: Collection[str]) -> dict[str, Any]:
    """Return options for others to read: those named ``places`` only where they name a commit of the hub."""
    shown = (key for key, value in options.items() if key not in places or _COMMIT.fullmatch(str(value)))
    return {key: options[key] for key in shown}


def _repository(name: str) -> re.Match[str] | None:
    return None if Path(name).exists() else _ID.fullmatch(name)


@lru_cache(maxsize=16)
def _snapshot(repository: str, revision: str | None, files: tuple[str, ...], extra: str) -> Path:
    hub = load("huggingface_hub", extra, f"the model {repository}")
    named = f"{repository}@{revision}" if revision else repository
    download = f"hf download {repository}" + (f" --revision {revision}" if revision else "")
    none = f"there is no directory {named} here, and "
    try:
        return Path(hub.snapshot_download(repository, revision=revision, allow_patterns=list(files)))
    except hub.errors.RevisionNotFoundError as error:
        raise UsageError(
            f"{repository} has no revision {revision!r}: name a branch, tag or commit"
        ) from error
    except hub.errors.GatedRepoError as error:
        raise UsageError(
            f"{repository} is given to those who ask: ask there, then `hf auth login`"
        ) from error
    except hub.errors.RepositoryNotFoundError as error:
        raise UsageError(
            f"{none}no such repository on the hub, or a private one: check the name, or `hf auth login`"
        ) from error
    except hub.errors.LocalEntryNotFoundError as error:
        raise MissingDataError(
            f"{none}the hub's is not in the cache and cannot be reached (HF_HUB_OFFLINE, or no network): run "
            f"`{download}` where it can be, or give the path of a directory"
        ) from error
    except (OSError, ValueError) as error:  # a full disk, another HTTP status, a malformed name
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UsageError(f"{none}{repository} cannot be fetched from the hub: {reason}") from error
