"""Models of the Hugging Face hub: the files of a repository as a directory of this machine."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from agentgym.errors import MissingDataError, UsageError
from agentgym.io.optional import load

_FILES = ("*.json", "*.safetensors", "*.jinja", "*.model", "*.txt", "*.tiktoken")
"""What of a repository is fetched: weights that are only tensors, and what the tokenizer is made of."""

_ID = re.compile(r"(?P<repository>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(@(?P<revision>[\w./-]+))?")


def model_directory(name: str) -> Path:
    """Return the directory of a model, fetching a repository's files where they are missing.

    Args:
        name: a path; or, where nothing has that path, ``OWNER/NAME`` or ``OWNER/NAME@REVISION`` of the hub.
            ``HF_HUB_OFFLINE``, ``HF_HOME`` and the other variables of `huggingface_hub` hold.

    Returns:
        The path, or the repository's snapshot in the cache.

    Raises:
        UsageError: it is neither; or the hub has no such repository or revision, or asks for a login.
        MissingDataError: the hub cannot or must not be reached, and the cache lacks the repository.
    """
    found = _repository(name)
    if found is not None:
        return _snapshot(found["repository"], found["revision"])
    if not Path(name).exists():
        raise UsageError(
            f"the model directory {name} does not exist: give the path of a saved model, or OWNER/NAME of "
            "the Hugging Face hub"
        )
    return Path(name)


def pinned(name: str) -> str:
    """Return a model's name with its repository's commit, which a resumed run goes on with."""
    found = _repository(name)
    return name if found is None else f"{found['repository']}@{model_directory(name).name}"


def _repository(name: str) -> re.Match[str] | None:
    return None if Path(name).exists() else _ID.fullmatch(name)


@lru_cache(maxsize=8)
def _snapshot(repository: str, revision: str | None) -> Path:
    hub = load("huggingface_hub", "train", f"the model {repository}")
    named = f"{repository}@{revision}" if revision else repository
    none = f"there is no directory {named} here, and "
    try:
        return Path(hub.snapshot_download(repository, revision=revision, allow_patterns=list(_FILES)))
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
            f"`hf download {repository}` where it can be, or give the path of a directory"
        ) from error
    except (OSError, ValueError) as error:  # a full disk, a status that says nothing more, a malformed name
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UsageError(f"{none}{repository} cannot be fetched from the hub: {reason}") from error
