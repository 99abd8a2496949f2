"""What shared-prefix packing saves: ``python -m benchmarks.speed.packing``.

A tiny model reads the steps of real rollouts, eight attempts at each task, and is differentiated: as tries of
rows that begin alike, as rows end to end, and as rows padded to the longest of their batch. All do so in one
process and one thread and take turns, round by round; processor time is counted, packing included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import gymnasium
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

import agentgym  # noqa: F401 (registers the environments)
from agentgym.core.types import Request
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.engines.types import Sampling
from agentgym.inference.models.language_model import LanguageModel
from agentgym.inference.models.tiny import environment_texts, tiny_model, word_tokenizer
from agentgym.inference.policy.policy import LanguageModelPolicy
from agentgym.inference.policy.prompted import make_speller
from agentgym.prompts.settings import Prompting
from agentgym.registration import suite_spec
from agentgym.rollout.worker import RolloutWorker
from agentgym.training.learner.config import Packing
from agentgym.training.learner.logprobs import response_log_probs
from agentgym.training.learner.packing import StepRow, step_rows
from agentgym.training.learner.tree import PACKINGS
from agentgym.vector.core import AgentVectorEnv
from benchmarks.harness.report import Texts, parser, table
from benchmarks.harness.rounds import Discipline, measure_all, publish_rows
from benchmarks.speed.engine import timed

OUT = Path(__file__).with_suffix(".json")
TASKS, MEMBERS = 2, 8
BUDGET = 2048
"""Most tokens of a pack, and of a padded batch."""


@dataclass(frozen=True, slots=True)
class Work:
    """The steps of some rollouts, and the model that learns from them."""

    name: str
    tiny: LanguageModel
    rows: list[StepRow]


def works(size: str, steps: int) -> Iterator[Work]:
    """Play so many steps, in different words: prompts that are made anew, and prompts that only grow."""
    for env_id, wordy in (("agentgym/ALFWorld-v0", True), ("agentgym/Sokoban-v0", False)):
        envs = cast(
            AgentVectorEnv,
            gymnasium.make_vec(env_id, num_envs=MEMBERS, autoreset_mode="Disabled", max_steps=steps),
        )
        texts = environment_texts(envs, episodes=24, seed=0)
        tiny = tiny_model(size, word_tokenizer(texts), context=1 << 15)
        short = Prompting.tiny(suite_spec(env_id).prompt)
        name = env_id.removeprefix("agentgym/").removesuffix("-v0")
        yield Work(f"{name}, prompts made anew, few words", tiny, play(envs, tiny, short))
        if wordy:
            long = short.replaced(
                {"wording": Prompting.default(suite_spec(env_id).prompt).wording, "answer": "plain"}
            )
            yield Work(f"{name}, prompts made anew, full wording", tiny, play(envs, tiny, long))
        yield Work(f"{name}, prompts that grow", tiny, play(envs, tiny, short, grows=True))


def play(
    envs: AgentVectorEnv, tiny: LanguageModel, prompting: Prompting, *, grows: bool = False
) -> list[StepRow]:
    """Return the steps of a model that chooses among the admissible actions.

    Args:
        envs: as many slots as a group has members.
        tiny: knows nothing, so that the members of a group soon do different things.
        prompting: how it is asked.
        grows: whether only the first prompt is made so, and each further one is the one before, the
            response to it, and what was seen after it.
    """
    builder = prompting.builder(tiny.chat)
    speller = make_speller(prompting, tiny)

    def prompt(request: Request) -> Sequence[int]:
        if not (grows and request.history):
            return builder.build(request).ids
        before = request.history[-1].completion
        seen = "\n".join([str(request.observation), "", *request.admissible_actions])
        return (*before.prompt_ids, *before.response_ids, *tiny.chat.encode_chat(seen))

    policy = LanguageModelPolicy(
        HfEngine(tiny.model),
        tiny.chat,
        prompt,
        sampling=Sampling(
            stop_ids=tiny.stop_ids, temperature=prompting.temperature, max_tokens=prompting.max_tokens
        ),
        speller=speller,
    )
    worker = RolloutWorker(envs, policy, env_id="")
    return step_rows(worker.collect(envs.tasks.ids[:TASKS], group_size=MEMBERS, seed=0), speller)


# ---- what is compared ------------------------------------------------------------------------


def packed(work: Work, packing: Packing) -> int:
    """Differentiate the log-probabilities of packs; return the number of steps."""
    for pack in PACKINGS[packing](work.rows, token_budget=BUDGET):
        response_log_probs(work.tiny.model, pack)[0].sum().backward()  # type: ignore[no-untyped-call]
    return len(work.rows)


def padded(work: Work) -> int:
    """Do the same with batches of rows of like lengths, padded on the right."""
    for batch in batches(work.rows):
        padded_log_probs(work.tiny, batch).sum().backward()  # type: ignore[no-untyped-call]
    return len(work.rows)


def batches(rows: Sequence[StepRow]) -> list[list[StepRow]]:
    """Put rows together, the shortest first, as long as they fit with what fills them up."""
    result: list[list[StepRow]] = [[]]
    for row in sorted(rows, key=len):
        if result[-1] and len(row) * (len(result[-1]) + 1) > BUDGET:
            result.append([])
        result[-1].append(row)
    return result


def padded_log_probs(tiny: LanguageModel, rows: Sequence[StepRow]) -> Tensor:
    """Return the log-probabilities of all response tokens, each among those that it was chosen from."""
    ids = [torch.from_numpy(row.read_ids) for row in rows]
    mask = pad_sequence([torch.ones_like(row) for row in ids], batch_first=True)
    output = tiny.model.base_model(
        input_ids=pad_sequence(ids, batch_first=True), attention_mask=mask, use_cache=False
    )
    tokens = [
        (k, len(row.prompt_ids) - 1 + t) for k, row in enumerate(rows) for t in range(len(row.response_ids))
    ]
    row_of, place_of = torch.tensor(tokens).unbind(1)
    logits = tiny.model.lm_head(output.last_hidden_state[row_of, place_of])
    allowed = torch.zeros(logits.shape, dtype=torch.bool)
    for here, choices in zip(allowed, [c for row in rows for c in row.choices or ()], strict=True):
        here[list(choices)] = True
    targets = torch.tensor([token for row in rows for token in row.response_ids])
    log_probs: Tensor = logits.masked_fill(~allowed, -torch.inf).log_softmax(-1)
    return log_probs.gather(1, targets[:, None])[:, 0]


def read(work: Work) -> dict[str, int]:
    """Return how many tokens the model reads each way."""
    packs = {name: pack(work.rows, token_budget=BUDGET) for name, pack in PACKINGS.items()}
    return {
        "agentgym": sum(len(pack.input_ids) for pack in packs["tree"]),
        "rows end to end": sum(len(pack.input_ids) for pack in packs["rows"]),
        "padded rows": sum(len(batch) * max(map(len, batch)) for batch in batches(work.rows)),
    }


def discipline(work: Work) -> Discipline:
    """Return what is measured in rounds."""

    def contestant(once: Callable[[], int]) -> Callable[[], Callable[[float], float]]:
        return lambda: timed(lambda _: once())

    contestants = {
        "agentgym": contestant(partial(packed, work, "tree")),
        "rows end to end": contestant(partial(packed, work, "rows")),
        "padded rows": contestant(partial(padded, work)),
    }
    return Discipline(work.name, "steps/CPU-s", contestants)


def texts(done: Sequence[Work], tokens: dict[str, dict[str, int]], steps: int) -> Texts:
    """Say what was measured."""
    weights = sum(weight.numel() for weight in done[0].tiny.model.parameters())
    head = ("discipline", "steps", "tokens read: agentgym", "rows end to end", "padded rows", "saved of rows")
    cells = []
    for work in done:
        ours, rows, padding = tokens[work.name].values()
        sizes = (f"{ours:,}", f"{rows:,}", f"{padding:,}", f"x{rows / ours:.2f}")
        cells.append((work.name, len(work.rows), *sizes))
    return Texts(
        title="Speed of an update's passes",
        setting=f"A tiny model of {weights:,} weights or so, forward and backward over the steps of {TASKS} "
        f"tasks, {MEMBERS} attempts at each,\n{steps} steps long; at most {BUDGET:,} tokens at once. "
        "Processor time of one thread, packing included.",
        notes="\n".join(
            [
                *table(head, cells),
                "",
                "agentgym reads what rows begin with once (`LearnerConfig.packing`). Padded rows are of like "
                "lengths, with transformers' own attention.",
            ]
        ),
    )


def main() -> int:
    """Measure, and write a record and a table."""
    arguments = parser(__spec__.name, __doc__, OUT, rounds=3, seconds=0.5)
    arguments.add_argument("--size", default="0.8m", help="of the tiny model")
    arguments.add_argument("--steps", type=int, default=8, help="of an episode")
    given = arguments.parse_args()
    torch.set_num_threads(1)
    done = list(works(given.size, given.steps))
    tokens = {work.name: read(work) for work in done}
    rows, around = measure_all(map(discipline, done), given), texts(done, tokens, given.steps)
    command = f"python -m {__spec__.name} --size {given.size} --steps {given.steps}"
    return publish_rows(command, given, rows, around, peers=("torch", "transformers"), tokens=tokens)


if __name__ == "__main__":
    raise SystemExit(main())
