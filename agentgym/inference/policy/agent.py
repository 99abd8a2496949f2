"""The agent ``model``: a language model from a directory, as suites and the command line know it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch

from agentgym.agents.metadata import AgentMetadata, Model
from agentgym.core.options import check_choice
from agentgym.errors import UsageError
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.engines.server import ServerEngine
from agentgym.inference.engines.standalone import serve_model
from agentgym.inference.models.language_model import (
    LanguageModel,
    load_model,
    open_directory,
    refuse_rounding,
)
from agentgym.inference.models.reward_model_file import read_reward_model
from agentgym.inference.policy.policy import LanguageModelPolicy
from agentgym.inference.policy.prompted import make_policy
from agentgym.inference.policy.rerank import RerankedPolicy, ResponseReward
from agentgym.inference.policy.saved import SavedAgent, read_agent, weights_sha256
from agentgym.io.hub import model_directory
from agentgym.io.records import parse
from agentgym.prompts.contexts import Context
from agentgym.prompts.pictured import PictureUse
from agentgym.prompts.settings import SETTINGS, UNMENTIONED, ActionChoice, Prompting
from agentgym.vector.core import AgentVectorEnv

CANDIDATES = 4
"""Default number of responses among which a reward model chooses."""

AgentEngine: TypeAlias = Literal["hf", "vllm"]
"""Engines that play; results of vLLM are others, since its draws are its own."""

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
    engine: AgentEngine = "hf",
    rerank: str | None = None,
    candidates: int | None = None,
) -> LanguageModelPolicy | RerankedPolicy:
    """Make the agent ``model``.

    Options replace settings of ``agent.json``; without that file ``wording`` and ``answer`` are needed.

    Args:
        envs: the environment that it will play.
        path: a model directory, or a repository of the hub, as `agentgym.io.hub.model_directory` takes it.
        wording: wording of prompts; like those below, a setting of `agentgym.prompts.settings.Prompting`.
        answer: the answer format that prompts ask for.
        history: past turns in a prompt.
        budget: most tokens of a prompt.
        choice: whether the model chooses among the admissible actions, or writes free text.
        temperature: temperature of sampling; 0 takes the likeliest token.
        max_tokens: most tokens of a free response.
        system: message before the prompt.
        template_options: further variables of the chat template, such as ``{"enable_thinking": False}``.
        pictures: whether prompts have the observation's picture.
        context: form of past turns in a prompt.
        template_file: a whole prompt in place of wording and answer.
        dtype: of the weights: float32 or bfloat16.
        device: where the model runs; None for the accelerator where there is one, else the processor.
        engine: what samples: hf, the engine over transformers, or vllm, which is started.
        rerank: a saved reward model, named like ``path``, which chooses among several responses a step.
        candidates: how many responses those are (default: 4).

    Raises:
        UsageError: the directory is incomplete, or has no settings of prompts; or an option is wrong.
    """
    given = (wording, answer, history, budget, choice, temperature, max_tokens, system, template_options)
    settings = dict(
        zip(SETTINGS, (*given, pictures, context, template_file), strict=True)
    )  # the order is that of the record's fields
    directory = model_directory(path)
    prompting = _prompting(directory, read_agent(directory), settings)
    load = partial(_load, dtype=dtype, device=device)
    if engine != "hf":
        return _of_vllm(prompting, directory, envs, engine, dtype, alone=(rerank, candidates) == (None, None))
    return _policy(prompting, load(directory), envs, rerank, candidates, load)


def _of_vllm(
    prompting: Prompting, directory: Path, envs: AgentVectorEnv, engine: str, dtype: str, *, alone: bool
) -> LanguageModelPolicy:
    check_choice("engine", engine, AgentEngine)
    check_choice("dtype", dtype, _DTYPES)
    if not alone:
        raise UsageError("a reward model is compared with weights in this process: set engine to 'hf'")
    served = _served(directory.resolve(), _stamp(directory), dtype, prompting.context_length)
    return make_policy(prompting, *served, envs, keep_messages=True, asynchronous=True)


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
    # on a GPU each episode goes on once its own response has ended; on a CPU batches repeat bit for bit
    beside = language_model.model.device.type != "cpu"
    policy = make_policy(prompting, language_model, engine, envs, keep_messages=True, asynchronous=beside)
    if rerank is None:
        if candidates is not None:
            raise UsageError("candidates are chosen among by a reward model: name its folder with rerank")
        return policy
    reward = ResponseReward.open(model_directory(rerank), language_model, load)
    return RerankedPolicy(policy, reward, _candidates(candidates))


def _candidates(given: int | None) -> int:
    number: object = CANDIDATES if given is None else given  # options come from suites and the command line
    if not isinstance(number, int) or isinstance(number, bool):
        raise UsageError(f"candidates is a whole number, got {number!r}")
    return number


def model_facts(path: str, **options: Any) -> AgentMetadata:
    """Return what a model directory says about the agent that `make_model_agent` makes of it."""
    directory = model_directory(path)
    saved = read_agent(directory)
    prompting = _prompting(directory, saved, options)
    sampling = prompting.to_json()
    template = sampling.pop("template")
    sampling.pop("template_file", None)  # a path, like that of a wording; its id is recorded instead
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
        folder = model_directory(options["rerank"])
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


@lru_cache(maxsize=1)
def _served(
    directory: Path, stamp: tuple[tuple[str, int, int], ...], dtype: str, context_length: int
) -> tuple[LanguageModel, ServerEngine]:
    """Start vLLM once for all environments of a suite; its model's weights are in vLLM alone."""
    refuse_rounding(directory, _DTYPES[dtype])
    model = open_directory(directory, dtype=_DTYPES[dtype])
    return model, serve_model(model, directory, _DTYPES[dtype], context_length=context_length)
