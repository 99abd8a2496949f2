"""verl-agent's own rollout loop and its GiGPO over our managers, with a scripted model, for `verl_agent`.

The checkout's ``TrajectoryCollector`` plays a rollout of built-in ALFWorld games as it does in training:
prompts are tokenised, responses decoded, episodes gathered. A model that says random admissible commands
stands where vLLM is, over a tokenizer of bytes. Its ``core_gigpo`` then groups the steps by our anchors and
computes their advantages.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bridges.verl_agent_peer import configuration
from benchmarks.bridges.verl_agent_texts import RESPONSES

SETTINGS = (
    *("env.env_name=alfworld/AlfredTWEnv", "env.max_steps=30", "env.rollout.n=8"),
    *(
        "data.train_batch_size=4",
        "data.val_batch_size=2",
        "data.max_prompt_length=6000",
        "data.truncation=left",
    ),
    *("env.agentgym.dataset=builtin", "env.agentgym.difficulty=easy", "algorithm.filter_groups.enable=False"),
    *("trainer.log_llm_steps=False", "data.return_raw_chat=True"),
)
GAMMA = 0.95
LENGTH = 256
"""Bytes of a response."""

ANCHORS = ("state", "text")


def byte_tokenizer() -> Any:
    """Return a tokenizer whose tokens are bytes."""
    tokenizers: Any = importlib.import_module("tokenizers")
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    model = tokenizers.models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[])
    built = tokenizers.Tokenizer(model)
    built.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    built.decoder = tokenizers.decoders.ByteLevel()
    transformers: Any = importlib.import_module("transformers")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=built, pad_token="<pad>", eos_token="<end>"
    )
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    return tokenizer


class ScriptedActor:
    """Stands where the workers of the model are: says admissible commands."""

    world_size = 1

    def __init__(self, tokenizer: Any, rows: Any, seed: int):
        """Say what ``rows`` admit."""
        self._tokenizer, self._rows, self._rng = tokenizer, rows, random.Random(seed)

    def generate_sequences(self, prompts: Any) -> Any:
        """Return a response to each prompt, as verl's rollout does."""
        offered = [list(commands) or ["look"] for commands in self._rows.get_admissible_commands]
        texts = [RESPONSES["well formed"](self._rng.choice(commands)) for commands in offered]
        encoded = self._tokenizer(texts, padding="max_length", max_length=LENGTH, return_tensors="pt")
        batch = prompts.batch.clone()
        batch["prompts"], batch["responses"] = batch["input_ids"], encoded["input_ids"]
        torch: Any = importlib.import_module("torch")
        batch["input_ids"] = torch.cat([batch["prompts"], batch["responses"]], dim=1)
        batch["attention_mask"] = torch.cat([batch["attention_mask"], encoded["attention_mask"]], dim=1)
        return importlib.import_module("verl").DataProto(batch=batch)


def play(checkout: Path, anchor: str, seed: int) -> dict[str, Any]:
    """Play a rollout by the checkout's loop; return what its GiGPO makes of it."""
    torch: Any = importlib.import_module("torch")
    verl: Any = importlib.import_module("verl")
    bridge: Any = importlib.import_module("agentgym.bridges.verl_agent")
    bridge.replace_workers()
    loop: Any = importlib.import_module("agent_system.multi_turn_rollout.rollout_loop")
    gigpo: Any = importlib.import_module("gigpo.core_gigpo")
    config = configuration(checkout, [*SETTINGS, f"env.agentgym.anchor={anchor}"])
    envs, _ = importlib.import_module("agent_system.environments").make_envs(config)
    tokenizer = byte_tokenizer()
    collector = loop.TrajectoryCollector(config, tokenizer)
    tasks = int(config.data.train_batch_size)
    raw = {"raw_prompt": np.array([[{"role": "user", "content": ""}]] * tasks, dtype=object)}
    source = {"data_source": np.array(["text"] * tasks, dtype=object)}
    given = verl.DataProto.from_single_dict({"input_ids": torch.zeros(tasks, 1), **raw, **source})
    batch = collector.multi_turn_loop(given, ScriptedActor(tokenizer, envs.envs, seed), envs, is_train=True)
    columns = batch.non_tensor_batch
    mask = torch.ones_like(batch.batch["responses"], dtype=torch.float32)
    token_rewards = torch.zeros_like(mask)
    token_rewards[:, -1] = torch.tensor(columns["episode_rewards"].astype(np.float32))
    returns = gigpo.compute_step_discounted_returns(batch, GAMMA)
    given_columns = (columns["anchor_obs"], columns["uid"], columns["traj_uid"])
    advantages, _ = gigpo.compute_gigpo_outcome_advantage(token_rewards, returns, mask, *given_columns)
    groups = gigpo.build_step_group(columns["anchor_obs"], columns["uid"])
    assert bool(torch.isfinite(advantages).all())
    return {
        "steps": len(groups),
        "episodes": len(set(columns["traj_uid"].tolist())),
        "step groups": len(set(groups.tolist())),
        "won": float(columns["success_rate"][0]),
        "advantages that are not 0": int((advantages[:, 0] != 0).sum()),
        "valid": int(columns["is_action_valid"].astype(int).sum()),
        "rewards": float(sum(columns["rewards"].astype(float))),
    }


def main() -> None:
    """Play by each anchor, and write what came of it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    found = {anchor: play(options.checkout, anchor, seed=0) for anchor in ANCHORS}
    options.out.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
