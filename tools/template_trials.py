"""What a chat template does with tools, thoughts and chats of several turns: a row of ``docs/templates.csv``.

A template is tried with a tokenizer of bytes that has the special tokens that it spells. What begins and ends
a text is guessed from the family.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tokenizers import AddedToken

from agentgym.core.tools import Tool, tool_schemas
from agentgym.core.types import Completion, Message, Request, Step, Trajectory
from agentgym.errors import UsageError
from agentgym.inference.models.tiny import word_tokenizer
from agentgym.prompts.chat_template import REFUSALS, ChatSetup, ChatTemplate
from agentgym.prompts.chat_tokenizer import ChatTokenizer
from agentgym.prompts.contexts import CHATS, CONTEXTS
from agentgym.prompts.settings import Prompting
from agentgym.reading.conventions import thoughts
from agentgym.registration import ENVIRONMENTS, open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker

MAX_CELL = 40
SYSTEM = "Be brief."
GROWN = ("exact", "exact but thoughts", *map("differs: {}".format, ("blanks", "numbers", "marks", "refused")))
"""How a chat that grows may differ from one that is written anew, by how much."""
BAR = chr(0xFF5C)  # DeepSeek's
ENDS = {
    "<|turn>": ("<bos>", "<eos>"),
    "start_of_turn": ("<bos>", "<eos>"),
    f"<{BAR}": (f"<{BAR}begin▁of▁sentence{BAR}>", f"<{BAR}end▁of▁sentence{BAR}>"),
    "<|start|>": ("<|startoftext|>", "<|return|>"),
    "<|end|>": ("<s>", "<|endoftext|>"),
}
"""Begin and end token of texts, by a mark in the template; of others ``<s>`` and what ends a message."""
SHORT = {
    "writes no chat of several turns": "one turn only",
    "does not write this chat": "no `window`",
    "changes the message": "user's text is changed",
    "lacks a part": "an earlier answer is changed",
    "NoneType": "no chat without tools",
}
"""Failures in a few words, by a part of their message."""
_MARK = (
    rf"\[e~\[|<\|?/?[A-Za-z_]+\|?>|<\|[^\s|<>{{}}'\"]+\|>|<{BAR}[^\s{BAR}<>{{}}'\"]+{BAR}>|\[/?[A-Z_]{{3,}}\]"
)
_END = re.compile(rf"\s*((?:<\|END_RESPONSE\|>)?(?:{_MARK}|</s>))")
_PLAIN = re.compile(r"</?(?!s>|bos>|eos>|start_of|end_of)[a-z_:]+>")  # such as <think>: no special tokens
Played: TypeAlias = Mapping[tuple[Tool, ...], Trajectory]


def episodes() -> Played:
    """Return an episode of each suite's oracle, by the suites' tools."""
    found: dict[tuple[Tool, ...], Trajectory] = {}
    for env_id in (each for each in ENVIRONMENTS if "Visual" not in each):
        with closing(open_vector(env_id, 1, options={})) as envs:
            if envs.prototype.tools not in found:
                worker = RolloutWorker(envs, envs.oracle(), env_id=env_id)
                found[envs.prototype.tools] = next(worker.run([EpisodeSpec(envs.tasks[0].id, 0, 0)]))
    return found


@dataclass
class Template:
    """A chat template, with the special tokens and thoughts that it is guessed to have."""

    source: str

    def __post_init__(self) -> None:
        """Guess the tokens that begin and end texts, answers and thoughts."""
        bos, eos = next((ENDS[mark] for mark in ENDS if mark in self.source), ("<s>", ""))
        self.special = {"bos_token": bos, "eos_token": eos or "</s>"}
        self.template = ChatTemplate(self.source, self.special)
        spelled = [each for each in thoughts() if each.marked and each.begin in self.source]
        self.kind = (spelled or thoughts())[-1 if spelled else 0]
        self.opening, asked, ended = "", [Message("user", "Q7")], None
        try:
            self.opening = self.template.render(asked).rpartition("Q7")[2].rstrip()
            after = self.template.render_after(asked, ChatSetup())
            ended = _END.match(after.partition("Q7")[0])
        except REFUSALS:
            pass
        self.end = ended[1] if ended and not _PLAIN.fullmatch(ended[1]) else ""
        self.special["eos_token"] = eos or self.end.rpartition("<|END_RESPONSE|>")[2] or "</s>"
        self.opened = self.opening.endswith(self.kind.begin)
        self.thought = f"{self.kind.begin}{self.kind.label}\nHm.\n{self.kind.end}{self.kind.after}"
        """As an answer has it."""
        closed = self.opening.endswith(self.kind.end)
        self.said = "" if closed else self.thought.removeprefix(self.kind.begin if self.opened else "")
        """As a model says it, after what the prompt opened or closed."""
        found = {each for each in re.findall(_MARK, self.source + self.end) if not _PLAIN.fullmatch(each)}
        tokens = [AddedToken(each, special=True) for each in sorted(found | {*self.special.values()})]
        tokenizer = word_tokenizer(())
        tokenizer.add_tokens(tokens)
        tokenizer.add_special_tokens({**self.special})
        tokenizer.chat_template = self.source
        self.chat = ChatTokenizer(tokenizer)

    def tools(self, suites: Sequence[tuple[Tool, ...]]) -> str:
        """Return the convention of the calls that it writes, or why it is handed no tools."""
        read = "in the prompt"
        for tools in suites:
            taken = ChatSetup(SYSTEM, tuple(tool_schemas(tools))).taken_by(self.template)
            trip = self.chat.tool_trip(tools) if taken.tools else None
            if trip and trip.problem:
                return "refused: " + trip.problem.rpartition(": ")[2]
            read = trip.convention if trip else read
        return read

    def thinking(self) -> str:
        """Return who begins a thought, and whether an earlier one is in a later prompt."""
        state = "by the model" if self.kind.begin in self.source else "none"
        state = "opened" if self.opened else state if self.said else "closed"
        try:
            chat = (Message("user", "Q"), Message("assistant", f"{self.thought}Up."), Message("user", "R"))
            kept = "kept" if "Hm." in self.template.render(chat) else "dropped"
        except REFUSALS:
            kept = "refused"
        return state if (state, kept) == ("none", "kept") else f"{state}, earlier {kept}"

    def append(self, thought: str) -> str:
        """Return how a chat that grew by what was sampled differs from one of the same texts."""
        chat, said, users = self.chat, f"{thought}Up.", [Message("user", f"Question {n}?") for n in range(3)]
        try:
            grown = chat.encode_chat(users[0].text)
            for user in users[1:]:
                grown += chat.encode(said + self.end)
                grown += chat.encode_next(user.text, grown)
            told = [each for user in users for each in (user, Message("assistant", said))][:-1]
            both = [chat.decode(ids) for ids in (grown, chat.encode_conversation(told))]
        except (*REFUSALS, UsageError):
            return GROWN[5]
        begin, end = re.escape(self.kind.begin), re.escape(self.kind.end)
        marks = rf"(?s){begin}(?:(?!{begin}).)*?{end}\s*|{begin}\s*|{end}\s*"
        for kind, left_out in zip(GROWN, ("$^", marks, r"\s+", r"\d"), strict=False):
            both = [re.sub(left_out, "", text) for text in both]
            if both[0] == both[1]:
                return kind
        return GROWN[4]

    def fails(self, played: Played, called: bool) -> str:
        """Return what is not written as it should be, in a few words; empty for nothing."""
        found = {} if self.as_elsewhere(next(iter(played))) else {"not as transformers": None}
        for place, (tools, episode) in enumerate(played.items()):
            for answer in ("tool-calls", "think-action")[not called : 2 if place == 0 or not called else 1]:
                for context in CONTEXTS if place == 0 else ("window",):  # what others write is of no suite
                    try:
                        self.play(episode, tools, context=context, answer=answer)
                    except Exception as error:  # noqa: BLE001 (it is what the table is for)
                        short = next((SHORT[each] for each in SHORT if each in str(error)), "")
                        found[short or f"{context}: {error}"] = None
        return "; ".join(each for each in found if each != "no `window`" or "one turn only" not in found)

    def as_elsewhere(self, tools: tuple[Tool, ...]) -> bool:
        """Return whether a long chat with tools is rendered as `transformers` does, where that shows it."""
        said = [{"role": "user", "content": "word " * 99}, {"role": "assistant", "content": "Up."}]
        chat, schemas = said * 20 + said[:1], tool_schemas(tools)
        theirs: Any = ""
        with suppress(Exception):  # a template raises anything
            theirs = self.chat.tokenizer.apply_chat_template(
                chat, tools=[*schemas], tokenize=False, add_generation_prompt=True
            )
        ours, setup = "", ChatSetup(tools=tuple(schemas))
        with suppress(*REFUSALS):
            ours = self.template.render(chat, setup)
        return ours == theirs or "word" not in theirs

    def play(self, episode: Trajectory, tools: tuple[Tool, ...], **how: Any) -> None:
        """Write an episode's first prompts; raise `ValueError` where one is not what it has to be.

        Args:
            episode: of an oracle.
            tools: of the suite.
            how: further settings of the prompts.
        """
        builder = Prompting(wording="generic", system=SYSTEM, budget=1 << 17, **how).builder(self.chat, tools)
        history, so_far, told = tuple[Step, ...](), tuple[int, ...](), ""
        steps = [each for each in episode.steps if each.side == episode.steps[0].side]
        for turn, step in enumerate(steps[:3]):
            now = (turn, step.observation, step.admissible_actions, step.state_hash, 7, history)
            fitted = builder.build(Request(0, episode.task_id, "", *now))
            text, prompt = self.chat.decode(fitted.ids), fitted.prompt.text.strip()
            names = [tool.name for tool in builder.template.answer.tools]
            if prompt not in text:
                raise ValueError("it changes the message")
            if not all(part in text for part in (SYSTEM, *names, told if how["context"] in CHATS else "")):
                raise ValueError("it lacks a part")
            glue = self.chat.decode(fitted.ids[len(so_far) :]).partition(prompt)[0]
            if how["context"] == "append" and so_far and self.end and self.end in glue:
                raise ValueError("it ends an answer twice")
            before, thought, _ = text.partition("Hm.")
            begin = (self.kind.begin, (self.kind.begin + self.kind.label).rstrip())
            if how["context"] == "window" and thought and not before.rstrip().endswith(begin):
                raise ValueError("a thought lacks its begin")
            told = builder.template.answer.written(step.action).rpartition("</think>")[2].strip()
            ids = tuple(self.chat.encode(self.said + told + self.end))
            said = Completion(step.action, self.said + told, prompt_ids=fitted.ids, response_ids=ids)
            history, so_far = (*history, replace(step, completion=said)), fitted.ids + ids

    def row(self, played: Played) -> tuple[str, ...]:
        """Return the cells after the name, in the order of `tools.model_tables.HEAD`."""
        tools, said = self.tools([*played]), [self.said] if self.opened else ["", self.said]
        system = ChatSetup(SYSTEM).taken_by(self.template).system
        cells = (
            hashlib.sha256(self.source.encode()).hexdigest()[:8],
            tools,
            self.thinking(),
            "own place" if system else "in the message",
            max(map(self.append, said), key=GROWN.index),
            self.fails(played, not tools.startswith("refused")),
        )
        return tuple(" ".join(cell.replace("|", r"\|").split())[:MAX_CELL] for cell in cells)
