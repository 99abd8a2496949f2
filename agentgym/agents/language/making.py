"""The agents ``prompting``, ``react`` and ``reflexion``, as suites and the command line know them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from agentgym.agents.demonstrators import DEMONSTRATED_SPLIT
from agentgym.agents.language.chats import ChatPrompts
from agentgym.agents.language.model import ChatModel
from agentgym.agents.language.policy import ChatPolicy
from agentgym.agents.language.reflexion import ReflexionPolicy
from agentgym.agents.language.settings import (
    PROMPTING,
    REACT,
    REFLEXION,
    WINDOW,
    ChatAgentSettings,
    ChatPromptSettings,
    ReflexionSettings,
    Scaffold,
)
from agentgym.agents.language.shots import Shots, make_shots
from agentgym.agents.language.words import scaffold_words, words_sha256
from agentgym.agents.metadata import AgentMetadata, Model
from agentgym.agents.table import refuse_sides
from agentgym.core.hashing import sha256_json
from agentgym.core.suite_spec import PromptDefaults
from agentgym.core.tools import Tool
from agentgym.endpoint.client import open_endpoint
from agentgym.endpoint.spec import EndpointSpec
from agentgym.env import AgentEnv
from agentgym.errors import MissingDataError, MissingPackageError, UsageError
from agentgym.io.records import parse
from agentgym.prompts import Template, load_template
from agentgym.registration import open_vector, suite_spec
from agentgym.vector.core import AgentVectorEnv

PlayedId = tuple[str, Mapping[str, Any]]


def _make(scaffold: Scaffold, envs: AgentVectorEnv, /, **options: Any) -> ChatPolicy:
    settings = _settings(scaffold, options)
    return language_agent(envs, open_endpoint(endpoint_of(settings)), scaffold, settings)


make_prompting = partial(_make, PROMPTING)
"""Make the agent ``prompting``: no scaffold, a new prompt every turn, the action alone as answer.

Options as `ChatAgentSettings`; ``endpoint`` and ``model`` have to be given."""
make_react = partial(_make, REACT)
"""Make the agent ``react``: a thought and an action every turn, in one conversation. Options as before."""
make_reflexion = partial(_make, REFLEXION)
"""Make the agent ``reflexion``: ``react`` with reflections carried between the attempts at a task.

Options as `ReflexionSettings`."""


def language_agent(
    envs: AgentVectorEnv, model: ChatModel, scaffold: Scaffold, settings: ChatAgentSettings
) -> ChatPolicy:
    """Make a language agent over any chat model.

    Args:
        envs: the environments to play.
        model: answers; an endpoint, or an engine of one's own.
        scaffold: one of `agentgym.agents.language.settings`.
        settings: `ReflexionSettings` for the scaffold ``reflexion``.

    Raises:
        UsageError: the wording or answer is unknown or does not go with the environment's tools, or too few
            demonstrations can be made.
        UnsupportedEnvError: `REFLEXION` would tell one side of a conversation what the other kept to itself.
    """
    game = envs.prototype
    if isinstance(settings, ReflexionSettings):
        refuse_sides(game, {})
    prompts = chat_prompts(game, scaffold, settings)
    if settings.shots:
        shots = make_shots(envs, prompts, settings.shots, settings.seed)
        prompts = replace(prompts, shots=settings.shots, demonstrations=shots.demonstrations)
    if isinstance(settings, ReflexionSettings):
        return ReflexionPolicy(model, prompts, settings, suite=game.suite)
    return ChatPolicy(model, prompts, settings, suite=game.suite)


def chat_prompts(game: AgentEnv[Any], scaffold: Scaffold, settings: ChatPromptSettings) -> ChatPrompts:
    """Return what turns requests of an environment into chats, without demonstrations.

    Raises:
        UsageError: the wording or answer is unknown or does not go with the environment's tools.
    """
    default = game.suite_spec.prompt
    template = _template(scaffold, settings, default.wording, game.tools)
    return _prompts(scaffold, settings, template, default)


def endpoint_of(settings: ChatAgentSettings) -> EndpointSpec:
    """Return the endpoint of an agent's options, with its request settings."""
    named = {"url": settings.endpoint, "model": settings.model, "key_env": settings.key_env}
    for name in named:
        if name in settings.request:
            own = "endpoint" if name == "url" else name
            raise UsageError(f"request holds {name!r}, which the agent's option {own!r} says: leave it out")
    return EndpointSpec.of({**named, **settings.request})


# ---- metadata ----------------------------------------------------------------------------------


def _facts(scaffold: Scaffold, /, environments: Sequence[PlayedId] = (), **options: Any) -> AgentMetadata:
    settings = _settings(scaffold, options)
    spec = endpoint_of(settings)
    wordings = [_words(scaffold, settings, *played) for played in _distinct(environments)]
    files = ("words", "reflexion") if scaffold is REFLEXION else ("words",)
    shots = [made for _, made in wordings if made is not None]
    sampling: dict[str, Any] = {
        "endpoint": spec.identity,
        "temperature": settings.temperature,
        "max_tokens": settings.max_tokens,
        "seed": settings.seed,
        "history": "suite" if (history := _history(scaffold, settings)) is None else history,
        "wordings": sorted({template.id for template, _ in wordings}),
    }
    if settings.shots:
        sampling["shots"] = {
            "count": settings.shots,
            "sha256": sha256_json([each.sha256 for each in shots]),
            "demonstrators": sorted({each.demonstrator for each in shots}),
            "privileged": any(each.privileged for each in shots),
        }
    return AgentMetadata(
        sampling=sampling,
        parser=_template(scaffold, settings, "generic", ()).answer.name,
        prompt_sha256=sha256_json(
            {
                "scaffold": scaffold.name,
                "words": words_sha256(*files),
                "templates": sorted({template.sha256 for template, _ in wordings}),
                "answer": _template(scaffold, settings, "generic", ()).sha256,
                "system": settings.system,
                "shots": [each.sha256 for each in shots],
            }
        ),
        model=Model(base_model=settings.model),
    )


prompting_facts = partial(_facts, PROMPTING)
"""Return the metadata of the agent ``prompting`` from its options, as `make_prompting` takes them.

``environments``: ids and options of those it plays, whose wordings and demonstrations its prompts hold."""
react_facts = partial(_facts, REACT)
reflexion_facts = partial(_facts, REFLEXION)


def _distinct(environments: Sequence[PlayedId]) -> list[PlayedId]:
    """Return environments that differ in more than the split, which neither words nor demonstrations know."""
    plain = [(env_id, {**options, "split": None}) for env_id, options in environments]
    return list(
        {repr((env_id, sorted(options.items()))): (env_id, options) for env_id, options in plain}.values()
    )


def _words(
    scaffold: Scaffold, settings: ChatAgentSettings, env_id: str, options: Mapping[str, Any]
) -> tuple[Template, Shots | None]:
    """Return the wordings of an agent's prompts, and the demonstrations.

    There are none where the environment's data are not here: it is not played either then.
    """
    default = suite_spec(env_id).prompt
    template = _template(scaffold, settings, default.wording, ())
    if settings.shots:
        try:
            opened = open_vector(env_id, 1, split=DEMONSTRATED_SPLIT, options=options)
        except (MissingDataError, MissingPackageError):
            return template, None
        with closing(opened) as envs:
            bound = _template(scaffold, settings, default.wording, envs.prototype.tools)
            prompts = _prompts(scaffold, settings, bound, default)
            return template, make_shots(envs, prompts, settings.shots, settings.seed)
    return template, None


# ---- inside ------------------------------------------------------------------------------------


def _settings(scaffold: Scaffold, options: Mapping[str, Any]) -> ChatAgentSettings:
    record = ReflexionSettings if scaffold is REFLEXION else ChatAgentSettings
    return parse(record, dict(options), f"agent {scaffold.name!r}")


def _template(
    scaffold: Scaffold, settings: ChatPromptSettings, wording: str, tools: tuple[Tool, ...]
) -> Template:
    template = load_template(settings.wording or wording, settings.answer or scaffold.answer, tools)
    if not settings.native_tools:
        return template
    how = scaffold_words("words")["native"]  # the server knows the tools, and the form of a call
    role = template.sections.get("role", "").format()
    return replace(
        template,
        static="\n\n".join(text for text in (role, how) if text),
        listing="",
        sha256=sha256_json({"template": template.sha256, "native": how}),
    )


def _history(scaffold: Scaffold, settings: ChatPromptSettings) -> int | Literal["all"] | None:
    """Return the number of past turns in prompts; None for the suite's default."""
    return WINDOW if settings.history is None and scaffold.conversation else settings.history


def _prompts(
    scaffold: Scaffold, settings: ChatPromptSettings, template: Template, default: PromptDefaults
) -> ChatPrompts:
    history = _history(scaffold, settings)
    return ChatPrompts(
        template=template,
        scaffold=scaffold,
        history=default.history if history is None else None if history == "all" else history,
        system=settings.system,
        images=settings.images,
        image_text=settings.image_text,
        native_tools=settings.native_tools,
    )
