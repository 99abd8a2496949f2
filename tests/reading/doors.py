"""Doors through which an answer of a server comes in: each returns the action that it is, or why it is none.

What a door does not take, such as arguments that a trainer refuses itself, is None. Doors that play a call at
a time join the actions of tools that may be called side by side.
"""

import asyncio
import json
from collections.abc import Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from agentgym.bridges.trl import EnvironmentFactory
from agentgym.cli import main
from agentgym.core.tools import tool_schemas
from agentgym.endpoint.replies import MalformedAnswerError, read_answer_body
from agentgym.endpoint.streams import read_stream
from agentgym.errors import UsageError
from agentgym.evaluation.imports.chat import read as read_chat
from agentgym.evaluation.log.runfiles import read_episodes
from agentgym.evaluation.log.transcripts import read_transcripts
from agentgym.prompts.formats.calls import action_of_raw_call
from agentgym.prompts.parsers import format_of
from agentgym.reading import RawCall, UnreadableError, calls_of_message
from agentgym.reading.syntaxes import decode
from agentgym.registration import open_env, open_vector
from tests.agents.chat_models import FakeChatModel, agent
from tests.bridges.inspect_stand_in import ToolError, standing_in
from tests.evaluation.chat_server import _Handler, serving
from tests.policy_requests import request
from tests.reading.bodies import ENVIRONMENTS, Case, tools_of
from tests.reading.readers import message_of
from tests.serving.gateway_stand_ins import SayingEngine, make_model, talking
from tests.suite_texts import ORACLE, RANDOM, env_table, suite_text, write_suite

SEEN = request(observation="Seen.")


class Read(NamedTuple):
    """What a door made of an answer."""

    action: str = ""
    problem: str = ""


def reply_of(case, stream):
    """Return a server's answer as its client has it."""

    async def pieces():
        yield case.sent(True)

    return asyncio.run(read_stream(pieces())) if stream else read_answer_body(case.sent(False))


def joined(actions, calls, tools):
    """Return what is played of actions of calls one after the other: all at once, or the first."""
    parallel = {tool.name for tool in tools if tool.parallel}
    alone = not all(call.name in parallel for call in calls)
    return Read(actions[0] if alone else "\n".join(actions))


# ---- language agents -----------------------------------------------------------------------------


class Agents:
    """Agents behind endpoints, which are handed a reply."""

    @cached_property
    def _vectors(self):
        return {suite: open_vector(env_id, 1) for suite, env_id in ENVIRONMENTS.items()}

    def __call__(self, case, stream):
        """Return what an agent makes of a reply."""
        try:
            reply = reply_of(case, stream)
        except MalformedAnswerError as error:
            return Read(problem=str(error))
        options = {"answer": "tool-calls", "native_tools": True}
        policy = agent(self._vectors[case.suite], FakeChatModel(lambda _: reply), **options)
        (completion,) = policy.act([SEEN])
        return Read(completion.action, completion.format_error)

    def close(self):
        """Close the environments."""
        for envs in self._vectors.values():
            envs.close()


def text_door(case):
    """Return what the answer format makes of a reply as text, its calls between tags."""
    try:
        answer = format_of("tool-calls").bound(tools_of(case.suite)).parse(text_of(case))
    except MalformedAnswerError as error:
        return Read(problem=str(error))
    return Read(answer.action, "" if answer.actions else answer.problem)


def text_of(case):
    """Return a reply as the text of a model that is asked without a parser."""
    reply = reply_of(case, case.streamed)
    form = '<tool_call>\n{{"name": {}, "arguments": {}}}\n</tool_call>'
    calls = [form.format(json.dumps(call.name), _json(call.arguments)) for call in reply.tool_calls]
    return "\n".join([*([reply.text] if reply.text else []), *calls])


def _json(arguments):
    """Return arguments as the model would write them: JSON itself, and what is none as a text."""
    try:
        json.loads(arguments)
    except ValueError:
        return json.dumps(arguments)
    return arguments


def import_door(case, folder):
    """Return the action of a log in OpenAI's form with the reply in it."""
    try:
        said = message_of(reply_of(case, True)) if case.streamed else case.message
        path = Path(folder) / "log.jsonl"
        path.write_text(json.dumps([{"role": "user", "content": "Seen."}, {"role": "assistant", **said}]))
        (episode,) = read_chat(path, tools_of(case.suite))
    except (MalformedAnswerError, UsageError) as error:
        said = str(error).rpartition("log.jsonl")[2].partition(": ")[2] or str(error)
        return Read(problem=said.partition("; is it of")[0])
    return Read(episode.steps[0].action)


# ---- trainers and harnesses, which parse a call's arguments themselves ----------------------------


def objects_of(case):
    """Return calls whose arguments are objects of JSON; None where one's are not, or a tool is unknown."""
    try:
        message = message_of(reply_of(case, True)) if case.streamed else case.message
        calls = [RawCall(call.name, _object(call.arguments)) for call in calls_of_message(message)]
    except (MalformedAnswerError, UnreadableError):
        return None
    known = {tool.name for tool in tools_of(case.suite)}
    whole = all(call.name in known and isinstance(call.arguments, dict) for call in calls)
    return calls if calls and whole else None


def _object(arguments):
    """Return arguments as they are decoded by who takes one value of JSON and nothing else."""
    if not isinstance(arguments, str):
        return arguments
    value, end = decode(arguments)
    return value if end == len(arguments) else None


def trl_door(case):
    """Return the actions of the methods that TRL calls."""
    calls = objects_of(case)
    if calls is None:
        return None
    player, played = EnvironmentFactory(ENVIRONMENTS[case.suite])(), []
    player._play = played.append
    try:
        for call in calls:
            getattr(player, call.name)(**call.arguments)
    except (TypeError, ValueError) as error:  # of an argument that the method does not have
        return Read(problem=str(error))
    return joined(played, calls, tools_of(case.suite))


def inspect_door(case, bridge):
    """Return the actions of the tools that inspect_ai runs."""
    calls = objects_of(case)
    if calls is None:
        return None
    env, played = open_env(ENVIRONMENTS[case.suite]), []
    bridge.module._step = lambda env, action: played.append(action)
    tools = {tool.name: bridge.module._tool(tool, env) for tool in env.tools}
    try:
        for call in calls:
            asyncio.run(tools[call.name].run(**call.arguments))
    except ToolError as error:
        return Read(problem=str(error))
    return joined(played, calls, env.tools)


# ---- the gateway -----------------------------------------------------------------------------------


@contextmanager
def gateway():
    """Run a gateway; yield the door to a client of it, whose model says the reply as text."""
    model = make_model()
    engine = SayingEngine(model)
    with talking(model, engine) as running:

        def door(case):
            try:
                engine.says.append(text_of(case))
            except MalformedAnswerError as error:
                return Read(problem=str(error))
            tools = tools_of(case.suite)
            said = running.say(running.begin(), "Seen.", tools=tool_schemas(tools))
            calls = calls_of_message(said)
            try:
                if not calls:
                    raise UnreadableError("no tool_calls, but a text")
                return joined([action_of_raw_call(call, tools)[0] for call in calls], calls, tools)
            except UnreadableError as error:
                return Read(problem=str(error))

        yield door


@contextmanager
def open_doors():
    """Open every door but the command line's; yield them by name, each of which takes a case."""
    with (
        closing(Agents()) as agents,
        gateway() as served,
        standing_in() as bridge,
        TemporaryDirectory() as folder,
    ):
        yield {
            "agent": lambda case: None if case.streamed else agents(case, False),
            "agent, streamed": lambda case: agents(case, True),
            "text": text_door,
            "gateway": served,
            "import": lambda case: import_door(case, folder),
            "inspect_ai": lambda case: inspect_door(case, bridge),
            "TRL": trl_door,
        }


# ---- the command line ------------------------------------------------------------------------------


class _Bytes(_Handler):
    def do_POST(self):  # noqa: N802 (http.server's name)
        """Send the case of a prompt: the next one to a prompt that is new."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        number = server.places.setdefault(json.dumps(body["messages"]), len(server.places))
        data = server.says[number].sent(body.get("stream", False))
        self.send_response(200)
        kind = "text/event-stream" if body.get("stream") else "application/json"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def bench(cases: Sequence[Case], stream: bool, folder: Path) -> list[Read]:
    """Play cases of one suite, an episode of one step each; return what each was read as."""
    with serving() as server:
        server.RequestHandlerClass, server.says, server.places = _Bytes, cases, {}
        options = {"endpoint": server.url, "model": "m", "answer": "tool-calls", "native_tools": True}
        options["request"] = {"stream": stream, "attempts": 1}
        env_id, one = ENVIRONMENTS[cases[0].suite], {"max_steps": 1}
        text = suite_text(
            "doors",
            env_table(env_id, len(cases), label="Doors", split="train", kwargs=one),
            agents=({"name": "asker", "kind": "react", "options": options}, RANDOM, ORACLE),
            seed=3,
            attempts=1,
        )
        suite = write_suite(folder, text)
        words = ["--agent", "asker", "--no-baselines", "--no-verify", "--no-probe", "--num-envs", "1"]
        code = main(["bench", str(suite), "--out", str(folder / "results"), *words])
    assert code == 0
    (run,) = (folder / "results" / "doors").iterdir()
    steps = {record.task_id: record.steps[0] for record in read_transcripts(run)}
    played = [steps[episode.task_id] for episode in read_episodes(run)]
    assert len(played) == len(cases)
    return [Read(step.action, step.format_error or step.error) for step in played]
