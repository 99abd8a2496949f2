"""Two steps of TRL's GRPOTrainer a suite, then of several in one run: python grpo_steps.py FOLDER.

The model is tiny and knows nothing; so that it plays, each call of the oracle is a token of its own, and
only those are sampled. What its calls paid is compared with the environment itself.
"""

import json
import math
import sys
from contextlib import closing
from itertools import pairwise

import torch
from datasets import Dataset
from tokenizers import AddedToken
from transformers.utils import logging
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen2_5_chat_template

from agentgym.agents import make_agent
from agentgym.bridges.trl import EnvironmentFactory, mixed_rows
from agentgym.core.tools import ToolCall, action_of, call_of
from agentgym.inference.models.tiny import END, tiny_model, word_tokenizer
from agentgym.registration import open_env, open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from benchmarks.bridges.recorded import FirstCall

SUITES = {
    "sokoban": ("agentgym/Sokoban-v0", {"num_boxes": 1, "max_steps": 4}),
    "hotpotqa": ("agentgym/HotpotQA-v0", {}),
    "webshop": ("agentgym/WebShop-v0", {}),
}


def calls_of(env_id, options):
    """Return what the oracle calls in the first task, as Qwen2.5 writes it."""
    with closing(open_vector(env_id, 1, options=options)) as envs:
        worker = RolloutWorker(envs, FirstCall(make_agent("oracle", envs)), env_id=env_id)
        [episode] = worker.run([EpisodeSpec(envs.tasks.ids[0], 0, 0)])
        calls = [call_of(envs.prototype.tools, step.action) for step in episode.steps]
    return [written(call) for call in calls]


def written(call):
    return f"<tool_call>\n{json.dumps(call._asdict())}\n</tool_call>"


def language_model(factories, calls):
    """Return a model to which words of what the suites show are single tokens, and calls as well."""
    texts = [qwen2_5_chat_template]
    for factory in factories:
        player = factory()
        texts += [player.reset(**row) for row in factory.rows(1)]
        for call in calls:
            name, arguments = json.loads(call.split("\n")[1]).values()
            if hasattr(player, name) and not (player.terminated or player.truncated):
                texts.append(getattr(player, name)(**arguments))
    tokenizer = word_tokenizer(texts * 2)
    tokenizer.add_tokens([AddedToken(call, normalized=False) for call in calls])
    tokenizer.chat_template = qwen2_5_chat_template
    return tiny_model("0.1m", tokenizer, context=8192)


def replayed(env_id, options, played):
    """Return what the calls that were played pay in the environment itself, and where they lead."""
    env = open_env(env_id, options=options)
    _, info = env.reset(seed=played["seed"], options={"task": played["task"]})
    names = {tool.name for tool in env.tools}
    called = [call["function"] for message in played["messages"] for call in message.get("tool_calls") or ()]
    called = [ToolCall(call["name"], call["arguments"]) for call in called if call["name"] in names]
    paid = []
    for call in called[: played["turns"]]:
        _, reward, _, _, info = env.step(action_of(env.tools, call))
        paid.append(reward)
    return sum(paid), info["state_hash"]


def train(folder, factory, rows, calls, groups):
    """Take two steps of some groups; return what was logged, and what was played."""
    factories = list(factory.values()) if isinstance(factory, dict) else [factory]
    model = language_model(factories, [call for episode in calls for call in episode])
    ids = [model.tokenizer.convert_tokens_to_ids(episode) for episode in calls]
    end = model.tokenizer.convert_tokens_to_ids(END)
    likely = {pair: 10.0 for episode in ids for pair in pairwise(episode)}
    likely[(end,)] = 5.0
    suppressed = set(range(len(model.tokenizer))) - {end, *(token for episode in ids for token in episode)}
    played = []

    def watch(completions, environments, task, seed, **columns):
        names = columns.get("environment", [None] * len(task))
        for name, row_task, row_seed, messages, env in zip(
            names, task, seed, completions, environments, strict=True
        ):
            outcome = {"reward": env.get_reward(), "hash": env.info["state_hash"], "turns": len(env.rewards)}
            row = {"suite": name, "task": row_task, "seed": row_seed, "messages": messages}
            played.append({**row, **outcome, "over": env.terminated or env.truncated})
        return [0.0] * len(task)

    config = GRPOConfig(
        output_dir=folder,
        max_steps=2,
        per_device_train_batch_size=4 * groups,
        num_generations=4,
        max_completion_length=1500,
        generation_kwargs={"suppress_tokens": sorted(suppressed), "sequence_bias": likely},
        temperature=5.0,
        learning_rate=1e-3,
        beta=0.0,
        report_to=[],
        save_strategy="no",
        logging_steps=1,
        use_cpu=True,
        bf16=False,
        seed=1,
        max_tool_calling_iterations=1,
    )
    before = {name: weight.detach().clone() for name, weight in model.model.named_parameters()}
    trainer = GRPOTrainer(
        model.model,
        watch,
        args=config,
        train_dataset=Dataset.from_list(rows),
        processing_class=model.tokenizer,
        environment_factory=factory,
    )
    trainer.train()
    logs = [log for log in trainer.state.log_history if "loss" in log]
    moved = max(
        float((weight.detach() - before[name]).abs().max()) for name, weight in model.model.named_parameters()
    )
    return logs, moved, played


def main(folder):
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    factories = {name: EnvironmentFactory(env_id, **options) for name, (env_id, options) in SUITES.items()}
    calls = {name: calls_of(env_id, options) for name, (env_id, options) in SUITES.items()}
    calls["hotpotqa"].append(written(ToolCall("answer", {"text": "nobody"})))
    runs = {name: (factory, factory.rows(1), [calls[name]], 1) for name, factory in factories.items()}
    runs["mixed"] = (factories, mixed_rows(factories, 1), list(calls.values()), len(factories))
    found = {}
    for name, settings in runs.items():
        logs, moved, played = train(folder, *settings)
        differences = 0
        for episode in played:
            env_id, options = SUITES[episode["suite"] or name]
            differences += replayed(env_id, options, episode) != (episode["reward"], episode["hash"])
        assert all(math.isfinite(log["loss"]) for log in logs)
        found[name] = {
            "steps": len(logs),
            "episodes": len(played),
            "turns": sum(episode["turns"] for episode in played),
            "ended": sum(episode["over"] for episode in played),
            "differences": differences,
            "rewards": sorted({round(episode["reward"], 6) for episode in played}),
            "calls": [log["tools/call_frequency"] for log in logs],
            "logged": sorted(key for key in logs[0] if key.startswith("rewards/") and key.endswith("/mean")),
            "moved": moved,
        }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
