"""The agent ``model``: a language model from a directory, as suites and the command line know it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch

from agentgym.agents.metadata import AgentMetadata, Model
from agentgym.core.options import check_choice
from agentgym.errors import UsageError
from agentgym.io.records import parse
from agentgym.prompts.contexts import Context
from agentgym.prompts.pictured import PictureUse
from agentgym.prompts.settings import SETTINGS, UNMENTIONED, ActionChoice, Prompting
from agentgym.training.engines.hf import HfEngine
from agentgym.training.models.models import LanguageModel, load_model
from agentgym.training.models.reward_model_file import read_reward_model
from agentgym.training.policy.policy import LanguageModelPolicy
from agentgym.training.policy.prompted import make_policy
from agentgym.training.policy.rerank import RerankedPolicy, ResponseReward
from agentgym.training.policy.saved import SavedAgent, read_agent, weights_sha256
from agentgym.vector.core import AgentVectorEnv

CANDIDATES = 4
"""Default number of responses that a reward model chooses among."""

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def make_model_agent(
    envs: AgentVectorEnv,
    path: str,
    *,
    wording: str | None = None,
    answer: str | None = None,
    history: int | None = None,
    budget: int | None = None,
    choice: ActionChoice | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    system: str | None = None,
    template_options: dict[str, Any] | None = None,
    pictures: PictureUse | None = None,
    context: Context | None = None,
    template_file: str | None = None,
    dtype: str = "float32",
    device: str | None = None,
    rerank: str | None = None,
    candidates: int | None = None,
) -> LanguageModelPolicy | RerankedPolicy:
    """Make the agent ``model``.

    Options replace settings of ``agent.json``; without that file ``wording`` and ``answer`` are needed.

    Args:
        envs: what it will play.
        path: a model directory.
        wording: of prompts, as the other settings of `agentgym.prompts.settings.Prompting`.
        answer: what the model is told about how to answer.
        history: past turns told.
        budget: most tokens of a prompt.
        choice: among the admissible actions, or free text.
        temperature: of sampling; 0 takes the likeliest token.
        max_tokens: longest free response.
        system: message before the prompt.
        template_options: further variables of the chat template, such as ``{"enable_thinking": False}``.
        pictures: whether the model is shown them.
        context: what of the past a prompt holds, and in which form.
        template_file: a whole prompt in place of wording and answer.
        dtype: of the weights: float32 or bfloat16.
        device: where the model runs; None for the accelerator where there is one, else the processor.
        rerank: folder of a saved reward model, which chooses among several responses a step.
        candidates: how many responses those are (default: 4).

    Raises:
        UsageError: the directory is incomplete, or says nothing of prompts; or an option is no good.
    """
    given = (wording, answer, history, budget, choice, temperature, max_tokens, system, template_options)
    settings = dict(
        zip(SETTINGS, (*given, pictures, context, template_file), strict=True)
    )  # in the record's order
    directory = _directory(path)
    prompting = _prompting(directory, read_agent(directory), settings)
    load = partial(_load, dtype=dtype, device=device)
    return _policy(prompting, load(directory), envs, rerank, candidates, load)


def _policy(
    prompting: Prompting,
    language_model: LanguageModel,
    envs: AgentVectorEnv,
    rerank: str | None,
    candidates: int | None,
    load: Callable[[Path], LanguageModel],
) -> LanguageModelPolicy | RerankedPolicy:
    """Return the policy, or one that plays the best of its responses where a reward model is named."""
    engine = HfEngine(language_model.model, shared_beginnings=True)
    policy = make_policy(prompting, language_model, engine, envs, keep_messages=True)
    if rerank is None:
        if candidates is not None:
            raise UsageError("candidates are chosen among by a reward model: name its folder with rerank")
        return policy
    return RerankedPolicy(
        policy, ResponseReward.open(Path(rerank), language_model, load), _candidates(candidates)
    )


def _candidates(given: int | None) -> int:
    number: object = CANDIDATES if given is None else given  # options come from suites and the command line
    if not isinstance(number, int) or isinstance(number, bool):
        raise UsageError(f"candidates is a whole number, got {number!r}")
    return number


def model_facts(path: str, **options: Any) -> AgentMetadata:
    """Return what a model directory says about the agent that is made of it.

    Args:
        path: as `make_model_agent` takes it.
        **options: as well.

    Raises:
        UsageError: as `make_model_agent`.
    """
    directory = _directory(path)
    saved = read_agent(directory)
    prompting = _prompting(directory, saved, options)
    sampling = prompting.to_json()
    template = sampling.pop("template")
    sampling.pop("template_file", None)  # a path, as that of a wording: the id stands for it
    for name, unset in UNMENTIONED.items():
        if sampling[name] == unset:
            del sampling[name]
    model = Model(weights_sha256=weights_sha256(directory))
    if saved is not None:
        training = saved.training
        model = Model(
            algorithm=training.algorithm,
            base_model=training.base_model,
            weights_sha256=model.weights_sha256,
            training_run=training.run,
            training_seed=training.seed,
            training_episodes=training.episodes,
            training_tokens=training.tokens,
            training_gpu_seconds=training.gpu_seconds,
            checkpoint=training.checkpoint,
        )
    if options.get("rerank") is not None:
        folder = Path(options["rerank"])
        read_reward_model(folder)
        sampling["rerank"] = {
            "candidates": _candidates(options.get("candidates")),
            "reward_model_sha256": weights_sha256(folder),
        }
    return AgentMetadata(
        sampling={**sampling, "wording": template["id"].partition("/")[0], "template": template["version"]},
        parser=prompting.template.answer.name,
        prompt_sha256=prompting.sha256,
        model=model,
    )


def _directory(path: str) -> Path:
    given: object = path  # options come from suites and the command line
    if not isinstance(given, str):
        raise UsageError(f"path is the name of a folder, got {given!r}")
    return Path(path)


def _prompting(directory: Path, saved: SavedAgent | None, options: dict[str, Any]) -> Prompting:
    """Return the settings of a directory, with those replaced that options give."""
    settings = {key: value for key, value in options.items() if key in SETTINGS and value is not None}
    if saved is not None:
        return saved.prompting.replaced(settings)
    for needed in () if "template_file" in settings else ("wording", "answer"):
        if needed not in settings:
            raise UsageError(
                f"{directory} has no agent.json, which says how the model is asked: give the agent's option "
                f'{needed!r}, for example wording = "generic" and answer = "think-action"'
            )
    return parse(Prompting, settings, "options")


def _load(directory: Path, dtype: str, device: str | None) -> LanguageModel:
    check_choice("dtype", dtype, _DTYPES)
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return _opened(directory.resolve(), _stamp(directory), dtype, device)


def _stamp(directory: Path) -> tuple[tuple[str, int, int], ...]:
    """Return what changes when a file of a directory does."""
    found = [(path.name, path.stat()) for path in sorted(directory.iterdir())]
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in found)


@lru_cache(maxsize=3)
def _opened(
    directory: Path, stamp: tuple[tuple[str, int, int], ...], dtype: str, device: str
) -> LanguageModel:
    """Load a model once for all environments of a suite, which are opened one after the other."""
    return load_model(directory, dtype=_DTYPES[dtype], device=device)
