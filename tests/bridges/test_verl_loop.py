"""The bridge to verl, with what stands in for verl: an agent loop's outputs, and a trainer's advantages."""

import asyncio
import importlib
import sys
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from agentgym.bridges.text_episode import TextEpisode, step_advantages, step_batch
from agentgym.errors import UsageError
from agentgym.prompts import load_template
from agentgym.prompts.budget import PromptBuilder
from agentgym.prompts.fitting import PromptTooLongError
from agentgym.registration import make

SOKOBAN = "agentgym/Sokoban-v0"
LEVELS = {"num_boxes": 1, "max_optimal": 4, "max_steps": 3}
ACTIONS = ("up", "down", "left")
LOGPROB, VALUE = -0.5, 0.25


class Config(dict):
    """A mapping that says it is OmegaConf's."""


class Letters:
    """Tokens are characters; a token beyond them is special."""

    def decode(self, ids, skip_special_tokens):
        return "".join(map(chr, ids[:-1] if skip_special_tokens and ids[-1] == 0 else ids))

    def build_initial_tokens(self, chat):
        (message,) = chat
        assert message["role"] == "user"
        return tuple(map(ord, message["content"]))


class AgentLoopBase:
    def __init__(self, rollout_config, server_manager):
        self.rollout_config, self.server_manager = rollout_config, server_manager
        self.tokenizer = self.continuous_token_builder = Letters()


class PPOTrainerSync:
    def __init__(self, config):
        self.config, self.use_critic = config, config.critic

    def _compute_advantage(self, batch, metrics):
        metrics["verl"] = "did its part"
        return batch


class TensorDict(dict):
    def __init__(self, fields, batch_size):
        super().__init__(fields)
        self.batch_size = batch_size


@contextmanager
def simple_timer(name, timing):
    yield
    timing[name] = 1.0


class Queue:
    """The rows of a batch by partition, and what was put to them."""

    def __init__(self):
        self.rows, self.put = {}, None

    def kv_batch_get(self, keys, partition_id, select_fields):
        assert partition_id == "train"
        named = {name: [self.rows[key][name] for key in keys] for name in select_fields}
        masks = torch.nested.as_nested_tensor(named["response_mask"], layout=torch.jagged)
        return {**named, "response_mask": masks}

    def kv_batch_put(self, keys, partition_id, fields):
        self.put = SimpleNamespace(keys=keys, partition_id=partition_id, fields=fields)
        return "what is stored"


@pytest.fixture
def bridge(monkeypatch):
    """Import the bridge over modules that stand in for verl and what it brings."""
    queue, trainers = Queue(), {}
    stands = {
        "omegaconf": {
            "OmegaConf": SimpleNamespace(
                to_container=dict, create=Config, is_config=lambda each: isinstance(each, Config)
            )
        },
        "tensordict": {"TensorDict": TensorDict},
        "transfer_queue": {"kv_batch_get": queue.kv_batch_get, "kv_batch_put": queue.kv_batch_put},
        "verl": {},
        "verl.experimental": {},
        "verl.experimental.agent_loop": {"AgentLoopBase": AgentLoopBase, "AgentLoopOutput": output},
        "verl.trainer": {},
        "verl.trainer.ppo": {},
        "verl.trainer.ppo.v1": {
            "PPOTrainerSync": PPOTrainerSync,
            "register_trainer": lambda name: lambda trainer: trainers.setdefault(name, trainer),
        },
        "verl.utils": {},
        "verl.utils.profiler": {"simple_timer": simple_timer},
    }
    for name, members in stands.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "agentgym.bridges.verl", raising=False)
    module = importlib.import_module("agentgym.bridges.verl")
    yield SimpleNamespace(module=module, queue=queue, trainers=trainers)
    sys.modules.pop("agentgym.bridges.verl", None)


def output(**fields):
    return SimpleNamespace(reward_score=None, **fields)


class Server:
    """Answers with actions, one after the other, and a special token at the end."""

    def __init__(self, *, logprobs=True, end=(0,)):
        self.asked, self._logprobs, self._end = [], logprobs, end

    async def generate(self, request_id, prompt_ids, sampling_params):
        ids = [*map(ord, ACTIONS[len(self.asked) % len(ACTIONS)]), *self._end]
        self.asked.append(SimpleNamespace(session=request_id, prompt=prompt_ids, sampling=sampling_params))
        log_probs = [LOGPROB] * len(ids) if self._logprobs else []
        return SimpleNamespace(token_ids=ids, log_probs=log_probs, extra_fields={"version": 7})


def loop_of(bridge, server, *, prompts=100_000, responses=100, **settings):
    config = SimpleNamespace(prompt_length=prompts, response_length=responses)
    return bridge.module.EnvironmentLoop(config, server, env_id=SOKOBAN, **settings)


def played(task=None, seed=None, history=None):
    """Return the prompts and records of an episode of the same actions."""
    env = make(SOKOBAN, **LEVELS)
    default = env.suite_spec.prompt
    letters = SimpleNamespace(encode_chat=lambda message: list(map(ord, message)))
    past = default.history if history is None else history
    builder = PromptBuilder(
        load_template(default.wording, "plain", env.tools), letters, budget=100_000, history=past
    )
    episode, prompts = TextEpisode(env, builder), []
    episode.begin(task=task, seed=seed)
    for action in ACTIONS:
        prompts.append(list(episode.prompt()))
        episode.play(action)
    assert episode.over
    return prompts, episode


@pytest.mark.parametrize("options", [LEVELS, Config(LEVELS)], ids=["plain", "config"])
def test_an_episode_is_an_output_a_step(bridge, options):
    server = Server()
    loop = loop_of(bridge, server, options=options)
    found = asyncio.run(loop.run({"top_p": 0.5}, task=None, seed=3, index=0))
    prompts, episode = played(seed=3)
    assert [each.prompt_ids for each in found] == prompts == [each.prompt for each in server.asked]
    assert len({each.session for each in server.asked}) == 1
    assert {str(each.sampling) for each in server.asked} == {"{'top_p': 0.5}"}
    for each, action, record in zip(found, ACTIONS, episode.records, strict=True):
        size = len(action) + 1
        assert each.response_ids == [*map(ord, action), 0]
        assert (each.response_mask, each.response_logprobs) == ([1] * size, [LOGPROB] * size)
        assert (each.num_turns, each.metrics) == (2, {"generate_sequences": 1.0, "tool_calls": 1.0})
        outcome = {name: float(episode.info[name]) for name in ("won", "score")}
        assert each.extra_fields == {"version": 7, "agentgym": record, "reward_extra_info": outcome}
    total = sum(record["reward"] for record in episode.records)
    assert total != 0
    assert [each.reward_score for each in found] == [None, None, total]


def test_episodes_of_a_loop_are_of_their_rows(bridge):
    server = Server(logprobs=False, end=())
    loop = loop_of(bridge, server, options=LEVELS, history=0)
    task = make(SOKOBAN, **LEVELS).tasks[5].id
    first = asyncio.run(loop.run({}, seed=3))
    second = asyncio.run(loop.run({}, task=np.str_(task)))
    assert [each.prompt_ids for each in first] == played(seed=3, history=0)[0]
    assert [each.prompt_ids for each in second] == played(task=task, history=0)[0]
    assert {each.response_logprobs for each in first} == {None}
    assert len({each.session for each in server.asked}) == 2
    with pytest.raises(UsageError, match="give them a column 'task' or 'seed'"):
        asyncio.run(loop.run({}))


def test_responses_are_cut_and_an_episode_ends_where_a_prompt_does_not_fit(bridge):
    cut = asyncio.run(loop_of(bridge, Server(end=()), options=LEVELS, responses=2).run({}, seed=3))
    assert cut[1].response_ids == [ord("d"), ord("o")]
    assert (cut[1].response_mask, cut[1].response_logprobs) == ([1, 1], [LOGPROB, LOGPROB])
    assert cut[1].extra_fields["agentgym"]["valid"] is False
    prompts, episode = played(seed=3)
    room = len(prompts[0])
    longer = loop_of(bridge, Server(), options=LEVELS, prompts=room - 1)
    with pytest.raises(PromptTooLongError):
        asyncio.run(longer.run({}, seed=3))
    loop = loop_of(bridge, Server(), options=LEVELS, prompts=room)
    build, built = loop._episode.prompt, []

    def one_prompt():
        built.append(build())
        if len(built) == 2:
            raise PromptTooLongError(f"{room + 1} tokens")
        return built[0]

    loop._episode.prompt = one_prompt
    (only,) = asyncio.run(loop.run({}, seed=3))
    assert only.reward_score == episode.records[0]["reward"]


def test_a_loop_takes_options_wording_and_answer_format(bridge):
    assert loop_of(bridge, Server())._episode._env.max_steps == make(SOKOBAN).max_steps
    loop = loop_of(bridge, Server(), options=LEVELS, answer="json-call")
    said = asyncio.run(loop.run({}, seed=3))
    assert [each.extra_fields["agentgym"]["valid"] for each in said] == [False] * 3


def algorithm(name, critic=False, **options):
    settings = Config(name=name, **options) if name else None
    trainer = SimpleNamespace(trainer_mode="")
    return SimpleNamespace(
        algorithm={"agentgym": settings}, critic=critic, trainer=SimpleNamespace(v1=trainer)
    )


def batch_of(queue):
    """Store two groups of two episodes with a row of padding; return the batch, its keys and records."""
    keys, records, tags = [], [], []
    for seed in (3, 4):
        for number in range(2):
            _, episode = played(seed=seed)
            for record in episode.records:
                # rewards of their own, so that the advantages of no two rows are the same
                records.append({**record, "reward": record["reward"] + 0.1 * number * (record["index"] + 1)})
                keys.append(f"task_{seed}_{number}_{record['index']}")
                tags.append({})
    order = np.random.default_rng(0).permutation(len(keys)).tolist()
    keys, records = [keys[row] for row in order], [records[row] for row in order]
    keys.insert(2, "padding_0_0")
    records.insert(2, records[0])
    tags.insert(2, {"is_padding": True})
    for row, key in enumerate(keys):
        mask = torch.tensor([1] * (row % 3 + 1) + [0])
        values = torch.full((len(mask),), VALUE * row)
        extra = {"agentgym": records[row]}
        queue.rows[key] = {"response_mask": mask, "values": values, "extra_fields": extra}
    return SimpleNamespace(keys=keys, tags=tags, partition_id="train"), records


def expected(name, batch, records, options, **columns):
    rows = [row for row in range(len(records)) if row != 2]
    keys = [tuple(batch.keys[row].rsplit("_", 2)[:2]) for row in rows]
    tokens = [row % 3 + 1 for row in rows]
    named = {column: [value[row] for row in rows] for column, value in columns.items()}
    steps, order = step_batch(keys, [records[row] for row in rows], tokens=tokens, **named)
    found = np.zeros(len(records))
    found[np.array(rows)[order]] = step_advantages(name, steps, options)
    return found, rows


def column(fields, name):
    rows = fields[name].unbind()
    for row, tokens in enumerate(rows):
        assert tokens[-1] == 0
        assert len({*tokens[:-1].tolist()}) == 1
        assert len(tokens) == row % 3 + 2
    return [float(tokens[0]) for tokens in rows]


def test_advantages_of_steps_take_the_place_of_verls(bridge):
    config = algorithm("gigpo", episode_weight=0.5)
    trainer, metrics = bridge.trainers["agentgym"](config), {}
    assert config.trainer.v1.trainer_mode == "sync"
    batch, records = batch_of(bridge.queue)
    assert trainer._compute_advantage(batch, metrics) == "what is stored"
    assert metrics == {"verl": "did its part"}
    put = bridge.queue.put
    advantages, _ = expected("gigpo", batch, records, {"episode_weight": 0.5})
    assert (put.keys, put.partition_id, put.fields.batch_size) == (batch.keys, "train", len(records))
    assert np.abs(advantages).max() > 0.1
    assert advantages[2] == 0
    assert column(put.fields, "advantages") == pytest.approx(advantages, abs=1e-6)
    assert column(put.fields, "returns") == column(put.fields, "advantages")


def test_returns_with_a_critic_are_advantages_as_they_are_and_values(bridge):
    trainer = bridge.module.StepCreditTrainer(algorithm("steppo", critic=True))
    batch, records = batch_of(bridge.queue)
    trainer._compute_advantage(batch, {})
    values = VALUE * np.arange(len(records))
    options = {"truncation": "zero"}
    advantages, rows = expected("steppo", batch, records, options, values=values)
    plain, _ = expected("steppo", batch, records, {**options, "whiten": False}, values=values)
    returns = np.zeros(len(records))
    returns[rows] = (plain + values)[rows]
    assert column(bridge.queue.put.fields, "advantages") == pytest.approx(advantages, abs=1e-6)
    assert column(bridge.queue.put.fields, "returns") == pytest.approx(returns, abs=1e-6)


def test_an_algorithm_without_its_critic_or_without_a_name_is_refused(bridge):
    with pytest.raises(UsageError, match=r"steppo needs a critic: set critic\.enable=True"):
        bridge.module.StepCreditTrainer(algorithm("steppo"))
    with pytest.raises(UsageError, match="unknown algorithm ''"):
        bridge.module.StepCreditTrainer(algorithm(""))
