"""verl 0.9's v1 trainer: an agent loop with an output a step, and a trainer with this package's credit.

``VERL_USE_EXTERNAL_MODULES=agentgym.bridges.verl`` lets verl import this module, which needs verl itself.
verl copies the last output's ``reward_score`` to all outputs of an episode: it is the sum of rewards, and
those of steps stand in ``extra_fields``.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any
from uuid import uuid4

import numpy as np
import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from tensordict import TensorDict
from verl.experimental.agent_loop import AgentLoopBase, AgentLoopOutput
from verl.trainer.ppo.v1 import PPOTrainerSync, register_trainer
from verl.utils.profiler import simple_timer

from agentgym.algos.table import find_algorithm
from agentgym.bridges.text_episode import TextEpisode, step_advantages, step_batch
from agentgym.env import AgentEnv
from agentgym.errors import UsageError
from agentgym.prompts.budget import PromptBuilder
from agentgym.prompts.fitting import PromptTooLongError
from agentgym.prompts.template import load_template
from agentgym.registration import open_env

FIELD = "agentgym"
"""Key of a step's record in ``extra_fields``, and of the trainer's settings in ``algorithm``."""


class EnvironmentLoop(AgentLoopBase):  # type: ignore[misc]
    """Plays an episode; every step has a prompt of its own, as for this package's policies."""

    def __init__(self, *args: Any, env_id: str, **settings: Any):
        """Open the environment, once a process, and choose the prompts.

        Args:
            *args: verl's.
            env_id: id of the environment, as `agentgym.make` takes it.
            **settings: ``options`` of its constructor; ``wording`` (by default the suite's), ``answer``
                (``"plain"``) and ``history`` (past turns) of prompts; the rest is verl's.
        """
        options, wording, answer, history = (
            settings.pop(name, None) for name in ("options", "wording", "answer", "history")
        )
        super().__init__(*args, **settings)
        plain = OmegaConf.to_container(options) if OmegaConf.is_config(options) else options or {}
        env = _shared_env(env_id, json.dumps(plain, sort_keys=True))
        default = env.suite_spec.prompt
        template = load_template(wording or default.wording, answer or "plain", env.tools)
        self._plain = template.answer.name != "tool-calls"  # some families' calls begin with special tokens
        past, budget = default.history if history is None else history, self.rollout_config.prompt_length
        self._episode = TextEpisode(env.spawn(), PromptBuilder(template, self, budget=budget, history=past))

    def encode_chat(self, message: str) -> list[int]:
        """Return the token ids of a chat of one user message, as verl writes it."""
        chat = [{"role": "user", "content": message}]
        return list(self.continuous_token_builder.build_initial_tokens(chat))

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> list[AgentLoopOutput]:
        """Play the task of a row to its end, or until a prompt does not fit; return an output a step."""
        episode, session, length = self._episode, uuid4().hex, self.rollout_config.response_length
        outputs: list[AgentLoopOutput] = []
        task, seed = row.get("task"), row.get("seed")
        episode.begin(task=None if task is None else str(task), seed=None if seed is None else int(seed))
        while not episode.over:
            try:
                prompt = list(episode.prompt())
            except PromptTooLongError:
                if not outputs:
                    raise
                break
            timing: dict[str, float] = {}
            with simple_timer("generate_sequences", timing):
                answer = await self.server_manager.generate(
                    request_id=session, prompt_ids=prompt, sampling_params=sampling_params
                )
            ids = answer.token_ids[:length]
            with simple_timer("tool_calls", timing):
                record = episode.play(self.tokenizer.decode(ids, skip_special_tokens=self._plain))
            outputs.append(
                AgentLoopOutput(
                    prompt_ids=prompt,
                    response_ids=ids,
                    response_mask=[1] * len(ids),
                    response_logprobs=answer.log_probs[:length] if answer.log_probs else None,
                    num_turns=2,
                    metrics=timing,
                    extra_fields={**answer.extra_fields, FIELD: record},
                )
            )
        outcome = {name: float(episode.info[name]) for name in ("won", "score")}
        for output in outputs:
            output.extra_fields["reward_extra_info"] = outcome
        outputs[-1].reward_score = sum(record["reward"] for record in episode.records)
        return outputs


class StepCreditTrainer(PPOTrainerSync):  # type: ignore[misc]
    """verl's synchronous trainer; the advantages of steps are those of an algorithm of this package."""

    def __init__(self, config: Any):
        """Read the algorithm and its options from ``algorithm.agentgym``."""
        settings = dict(OmegaConf.to_container(config.algorithm.get(FIELD) or OmegaConf.create()))
        self._algorithm = settings.pop("name", "")
        defaults = find_algorithm(self._algorithm).defaults
        # no row of the batch follows a truncated episode, so the critic has no value there
        self._options = {**({"truncation": "zero"} if "truncation" in defaults else {}), **settings}
        config.trainer.v1.trainer_mode = "sync"  # the trainer's parts know it by this name
        super().__init__(config)
        if find_algorithm(self._algorithm).critic and not self.use_critic:
            raise UsageError(f"{self._algorithm} needs a critic: set critic.enable=True")

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        """Let verl do its part (divergence, correction), then replace its advantages by those of steps."""
        batch = super()._compute_advantage(batch, metrics)
        names = ["extra_fields", "response_mask", *(["values"] if self.use_critic else [])]
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=names)
        masks, extra = data["response_mask"].unbind(), list(data["extra_fields"])
        played = [row for row, tag in enumerate(batch.tags) if not tag.get("is_padding")]
        columns: dict[str, list[Any]] = {"tokens": [int(masks[row].sum()) for row in played]}
        if self.use_critic:  # verl's value of a response's first token is that of the state
            columns["values"] = [float(data["values"][row][0]) for row in played]
        keys = [tuple(batch.keys[row].rsplit("_", 2)[:2]) for row in played]
        steps, order = step_batch(keys, [extra[row][FIELD] for row in played], **columns)
        made = {"advantages": step_advantages(self._algorithm, steps, self._options)}
        made["returns"] = made["advantages"]
        if steps.values is not None:
            options = {**self._options, "whiten": False}
            made["returns"] = step_advantages(self._algorithm, steps, options) + steps.values
        fields = TensorDict({}, batch_size=len(masks))
        for name, of_steps in made.items():
            column = np.zeros(len(masks))
            column[np.array(played)[order]] = of_steps
            tokens = [mask * float(each) for mask, each in zip(masks, column, strict=True)]
            fields[name] = torch.nested.as_nested_tensor(tokens, layout=torch.jagged)
        return tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)


register_trainer("agentgym")(StepCreditTrainer)


@cache
def _shared_env(env_id: str, options: str) -> AgentEnv[Any]:
    return open_env(env_id, options=json.loads(options))
