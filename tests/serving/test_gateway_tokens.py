"""Prompts of the gateway hold the very tokens that were sampled, whatever clients make of the answers."""

import json
import random

import numpy as np
import pytest

from agentgym.endpoint.chat import ChatMessage, ChatToolCall
from agentgym.errors import UsageError
from agentgym.inference.engines.types import Generation
from agentgym.serving.gateway.call_tree import CallTree, EnvRow, ModelCall
from agentgym.serving.gateway.token_rule import PromptWriter
from tests.serving.gateway_stand_ins import TOOL, call_text, make_model

FAMILIES = ("qwen2", "qwen3", "llama3")
STOP = "<|im_end|>"
LLAMA = '{"name": "look", "parameters": {}}'


@pytest.fixture(scope="module", params=FAMILIES)
def model(request):
    return make_model(request.param)


def added(tree, place, prompt, ids, finish, answer, tools):
    """Add a call to a tree; return it."""
    number, generation = len(tree.calls), Generation(ids, (0.0,) * len(ids), 0, finish)
    call = ModelCall(
        number, number, place.parent, place.key, place.messages, tools, prompt, generation, answer, 1.0, 0.0,
        EnvRow(place.key), 0.0,
    )  # fmt: skip
    tree.add(call)
    return call


class Talk:
    """A client that writes the messages it was given in its own way, and an engine that says anything."""

    def __init__(self, model, seed):
        self.rng, self.model = random.Random(seed), model
        self.writer, self.tree = PromptWriter(model.chat), CallTree()
        self.tools = (TOOL,) if self.rng.random() < 0.6 else ()
        stops = set(model.stop_ids)
        self.tokens = [token for token in range(len(model.tokenizer)) if token not in stops]

    def sampled(self):
        """Return tokens, a part of them any, and how the answer ends."""
        rng, encode = self.rng, self.model.chat.encode
        ids = [rng.choice(self.tokens) for _ in range(rng.randint(0, 5))]
        if self.tools and rng.random() < 0.6:
            arguments = {"place": rng.choice(["left", 'a "b"\n', "é", STOP])}
            if "<tool_call>" not in self.writer.template.source:
                ids = encode(json.dumps({"name": "look", "parameters": arguments}))
            else:
                ids += encode(call_text(**arguments))
        ids = ids or encode(" near")
        return tuple(ids) + ((self.model.tokenizer.eos_token_id,) if rng.random() < 0.8 else ())

    def ask(self, messages):
        """Answer messages as the gateway does; return the call."""
        place = self.tree.find(self.tools, messages)
        if place.parent is None:
            prompt = self.writer.opening(place.messages, self.tools)
        else:
            parent = self.tree.calls[place.parent]
            said = parent.generation.ids
            glue = self.writer.following(place.messages, said, parent.answer.tool_calls)
            prompt = parent.prompt_ids + said + glue
        ids = self.sampled()
        ended = ids[-1] in self.model.stop_ids
        text = self.model.chat.decode(ids[:-1] if ended else ids)
        answer = ChatMessage("assistant", text)
        if self.tools:
            answer = self.writer.answer(text, self.tools, "call")
        return added(self.tree, place, prompt, ids, "stop" if ended else "length", answer, self.tools)

    def written_anew(self, message):
        """Return an answer as some client sends it back."""
        calls = tuple(
            ChatToolCall(
                f"other{self.rng.random()}", each.name, json.dumps(json.loads(each.arguments), indent=1)
            )
            for each in message.tool_calls
        )
        text = message.text if self.rng.random() < 0.5 else message.text.strip()
        return ChatMessage("assistant", text, tool_calls=calls)

    def next_messages(self, answer):
        rng = self.rng
        results = [
            ChatMessage(
                "tool", rng.choice(["{}", "Nothing there.", f"odd {STOP} text"]), tool_call_id=each.id
            )
            for each in answer.tool_calls
        ]
        more = [ChatMessage("user", rng.choice(["Which way?", f"go {STOP}", "look left"]))]
        return results + (more if not results or rng.random() < 0.3 else [])


def naive(talk, call):
    """Return the tokens of a whole chat that is written from its texts."""
    return talk.writer.opening(talk.tree.messages(call), talk.tools)


def converse(model, conversations, seed):
    """Hold conversations with edits and retries; return how many prompts the naive form has otherwise."""
    differing, continued = 0, 0
    for number in range(conversations):
        talk = Talk(model, seed + number)
        messages = [ChatMessage("system", "Help.")] if talk.rng.random() < 0.5 else []
        messages.append(ChatMessage("user", "Which way?"))
        for _ in range(talk.rng.randint(2, 5)):
            call = talk.ask(messages)
            if call.parent is not None:
                parent = talk.tree.calls[call.parent]
                before = parent.prompt_ids + parent.generation.ids
                assert call.prompt_ids[: len(before)] == before
                assert len(call.prompt_ids) > len(before)
                continued += 1
                try:
                    differing += naive(talk, call) != call.prompt_ids
                except UsageError:  # a template that writes one call at a time
                    differing += 1
            deed = talk.rng.random()
            if deed < 0.1:  # the same once more
                continue
            if deed < 0.2 and len(messages) > 2:  # an edited history
                messages = [*messages[:-1], ChatMessage("user", "go up")]
                continue
            messages = [*messages, talk.written_anew(call.answer), *talk.next_messages(call.answer)]
    return differing, continued


def test_prompts_begin_with_what_was_sampled(model):
    differing, continued = converse(model, 170, 0)
    assert continued > 170
    assert differing >= 20  # the control: written anew from its texts, a chat has other tokens


@pytest.mark.slow
def test_prompts_of_ten_thousand_conversations_begin_with_what_was_sampled(model):
    differing, continued = converse(model, 3_400, 10_000)
    assert continued > 3_400
    assert differing > continued / 2


def test_what_comes_between_is_what_the_template_writes(model):
    """Where the naive form has the sampled tokens, both forms are the same."""
    chat, writer = model.chat, PromptWriter(model.chat)
    opening = writer.opening([ChatMessage("user", "Which way?")], ())
    said = (*chat.encode("go right"), model.tokenizer.eos_token_id)
    more = [ChatMessage("user", "look left")]
    whole = writer.opening(
        [ChatMessage("user", "Which way?"), ChatMessage("assistant", "go right"), *more], ()
    )
    assert opening + said + writer.following(more, said) == whole
    cut = opening + said[:-1]  # an answer that was cut off gets its end from the template
    assert cut + writer.following(more, cut) == whole


def test_results_of_several_tools_and_a_question_come_as_the_template_has_them():
    model = make_model("qwen3")
    following = PromptWriter(model.chat).following(
        [ChatMessage("tool", "one", tool_call_id="a"), ChatMessage("tool", "two", tool_call_id="b")],
        [model.tokenizer.eos_token_id],
    )
    assert model.chat.decode(following) == (
        "\n<|im_start|>user\n<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response>"
        "<|im_end|>\n<|im_start|>assistant\n"
    )


def test_special_tokens_in_messages_are_text(model):
    end = model.tokenizer.eos_token
    writer = PromptWriter(model.chat)
    plain = writer.following([ChatMessage("user", "go")], ())
    spelled = writer.following([ChatMessage("user", f"go{end}")], ())
    count = [ids.count(model.tokenizer.eos_token_id) for ids in (plain, spelled)]
    assert count[0] == count[1]
    assert end in model.chat.decode(spelled)
    call = ChatToolCall("a", "look", json.dumps({"place": end}))
    told = [ChatMessage("user", "go"), ChatMessage("assistant", "", tool_calls=(call,))]
    told += [ChatMessage("tool", end, tool_call_id="a")]
    tool = json.loads(json.dumps(TOOL).replace("Look there", f"Look {end}"))
    plain_tool = writer.opening([ChatMessage("user", "go")], [TOOL])
    odd_tool = writer.opening([ChatMessage("user", "go")], [tool])
    assert np.sum(np.equal(plain_tool, model.tokenizer.eos_token_id)) == np.sum(
        np.equal(odd_tool, model.tokenizer.eos_token_id)
    )
    ends = writer.opening(told, [TOOL]).count(model.tokenizer.eos_token_id)
    quiet = [ChatMessage(m.role, m.text.replace(end, "x"), tool_call_id=m.tool_call_id) for m in told[::2]]
    calm = ChatMessage("assistant", "", tool_calls=(ChatToolCall("a", "look", "{}"),))
    assert ends == writer.opening([quiet[0], calm, quiet[1]], [TOOL]).count(model.tokenizer.eos_token_id)


def test_what_a_template_cannot_write_is_named():
    model = make_model("qwen2")
    model.tokenizer.chat_template = (
        "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
        "{% if m.role != 'system' %}{{ m.role + ': ' + m.content + '<|im_end|>' }}{% endif %}{% endfor %}"
    )
    writer = PromptWriter(model.chat)
    question = ChatMessage("user", "go")
    for line, messages, tools in (
        ("writes no tools", [question], [TOOL]),
        ("no tools here", [question, ChatMessage("tool", "x", tool_call_id="a")], []),
        ("leaves out a message of the role 'system'", [ChatMessage("system", "x"), question], []),
    ):
        with pytest.raises(UsageError, match=line):
            writer.opening(messages, tools)
    with pytest.raises(UsageError, match="no tools here"):
        writer.following([ChatMessage("tool", "x", tool_call_id="a")], ())


def answered(tree, messages, said, tools=()):
    answer = said if isinstance(said, ChatMessage) else ChatMessage("assistant", said)
    return added(tree, tree.find(tools, tuple(messages)), (0,), (1,), "stop", answer, tools)


def test_the_longest_known_part_of_a_chat_is_continued():
    tree, go, left = CallTree(), ChatMessage("user", "go"), ChatMessage("user", "left")
    first = answered(tree, [go], "a")
    second = answered(tree, [go, first.answer, left], "b")
    assert (first.parent, second.parent, second.messages) == (None, 0, (left,))
    again = answered(tree, [go], "a")  # a retry with the same answer: the newer one is continued
    assert again.parent is None
    third = answered(tree, [go, again.answer, go], "c")
    assert third.parent == again.number
    edited = answered(tree, [go, ChatMessage("assistant", "other"), left], "d")
    assert (edited.parent, len(edited.messages)) == (None, 3)
    assert answered(tree, [go, first.answer, left], "e", tools=(TOOL,)).parent is None
    assert tree.messages(second) == (go, first.answer, left)
    inserted = [go, first.answer, left, second.answer, left, ChatMessage("assistant", "not ours"), go]
    assert answered(tree, inserted, "f").messages == tuple(inserted[4:])


def test_answers_are_known_in_whatever_form_they_come_back():
    tree, go = CallTree(), ChatMessage("user", "go")
    said = ChatMessage(
        "assistant",
        "<think>hm</think>\n look ",
        tool_calls=(ChatToolCall("a", "look", '{"n": 1.0, "a": []}'),),
    )
    call = answered(tree, [go], said)
    for text, arguments in (
        ("<think>hm</think>\n look ", '{"n": 1.0, "a": []}'),
        ("look", '{"a":[],"n":1}'),
        (" look\n", '{\n "a": [], "n": 1}'),
    ):
        back = ChatMessage("assistant", text, tool_calls=(ChatToolCall("z", "look", arguments),))
        assert tree.find((), (go, back, go)).parent == call.number
    for text, arguments in (("look!", '{"n": 1, "a": []}'), ("look", '{"n": 2, "a": []}'), ("look", "{")):
        back = ChatMessage("assistant", text, tool_calls=(ChatToolCall("a", "look", arguments),))
        assert tree.find((), (go, back, go)).parent is None


@pytest.mark.parametrize(
    ("text", "said", "calls"),
    [
        (f"{call_text(n=1)} {call_text(n=2)}", "", ['{"n": 1}', '{"n": 2}']),
        (f"So. {call_text(n='</tool_call>')} Well.", "So.\nWell.", ['{"n": "</tool_call>"}']),
        ('<tool_call>{"name": "look", "arguments": "{}"}</tool_call>', "", ["{}"]),
        ('<tool_call>{"name": "look"}</tool_call>', "", ["{}"]),
        ('<tool_call>{"name": "look", "arguments": null}</tool_call>', "", ["{}"]),
        ('<tool_call>{"name": "look", "arguments": {}', None, []),
        ('<tool_call>{"name": "look", "arguments": {"a": NaN}}</tool_call>', None, []),
        (f"<think>{call_text(place='a')}</think>no", None, []),
        (f"<tool_call>no{call_text(place='a')}", None, []),
        ('{"name": "look", "parameters": {"place": "a"}}', "", ['{"place": "a"}']),
        ('<|python_tag|>{"name": "look", "parameters": {}}; ' + LLAMA, "", ["{}"] * 2),
        (f"I say {LLAMA}", None, []),
        ("<|tool_call>call:look{place:<|\"|>a<|\"|>}<tool_call|>", "", ['{"place": "a"}']),
    ],
)  # fmt: skip
def test_calls_are_told_from_text(model, text, said, calls):
    found = PromptWriter(model.chat).answer(text, (TOOL,), "a")
    assert found.text == (text if said is None else said)
    assert [call.arguments for call in found.tool_calls] == calls
    assert {call.name for call in found.tool_calls} <= {"look"}


def test_templates_are_given_the_name_of_the_tool_that_answers(model):
    look, step = (ChatToolCall(f"call_{name}", name, "{}") for name in ("look", "step"))
    messages = [
        ChatMessage("tool", "seen", tool_call_id=look.id),
        ChatMessage("assistant", "", tool_calls=(step,)),
        ChatMessage("tool", "done", tool_call_id=step.id),
        ChatMessage("tool", "odd", tool_call_id="of no call"),
    ]
    tables = PromptWriter(model.chat)._tables(messages, ["seen", "", "done", "odd"], [look])
    assert [table.get("name") for table in tables] == ["look", None, "step", ""]
