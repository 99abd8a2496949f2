"""An engine that says what it is given, and a gateway that runs in this process."""

import http.client
import json
import tempfile
import threading
from concurrent.futures import Future
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from agentgym.inference.engines.types import Generation
from agentgym.inference.models.families import make_family_model
from agentgym.serving.app_server import AppServer
from agentgym.serving.env.service import EnvService
from agentgym.serving.env.sessions import EnvLimits
from agentgym.serving.gateway.app import make_app
from agentgym.serving.gateway.journal import SessionJournal
from agentgym.serving.gateway.service import Gateway
from agentgym.serving.gateway.sessions import GatewayLimits

TEXTS = ("Which way? I think it is near, so go right.", "The weather is fine. look left go up", "arguments")
WAIT = 60
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look there.",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
    },
}


def call_text(**arguments):
    """Return an answer in Qwen's form that calls the tool."""
    return f"<tool_call>\n{json.dumps({'name': 'look', 'arguments': arguments})}\n</tool_call>"


class SayingEngine:
    """Answers the texts or tokens that it is given, in order, then ``I think it is near.``."""

    context_length = 4096

    def __init__(self, model, says=()):
        self.chat, self.stop = model.chat, model.tokenizer.eos_token_id
        self.says, self.version, self.requests, self.fails = list(says), 3, [], None

    def submit(self, request):
        if self.fails:
            raise self.fails
        self.requests.append(request)
        said = self.says.pop(0) if self.says else "I think it is near."
        ids = [*(self.chat.encode(said) if isinstance(said, str) else said), self.stop]
        future = Future()
        logprobs = tuple(-0.5 - n / 64 for n in range(len(ids)))
        future.set_result(Generation(tuple(ids), logprobs, self.version, "stop"))
        return future


def stored(pool):
    """Return a pool's episodes, each with its group, in the order of groups."""
    return [(episode, group) for group in pool.groups() for _, episode in pool.episodes(group.name)]


def make_model(family="qwen2"):
    return make_family_model(family, TEXTS, context=4096)


class Talking:
    """A gateway that runs, in this process or in another one."""

    def __init__(self, url, gateway=None, headers=None):
        self.gateway, self.url, self.address = gateway, url, url.removeprefix("http://")
        self.headers = headers or {}

    def ask(self, path, body=None, *, method="POST", headers=None):
        """Return the status and what is answered to a request."""
        with closing(http.client.HTTPConnection(self.address, timeout=WAIT)) as connection:
            data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            connection.request(method, path, data, headers or self.headers)
            response = connection.getresponse()
            text = response.read().decode()
            return response.status, json.loads(text) if text.startswith(("{", "[")) else text

    def get(self, path):
        status, answer = self.ask(path, method="GET")
        assert status == 200, answer
        return answer

    def post(self, path, **body):
        status, answer = self.ask(path, body)
        assert status == 200, answer
        return answer

    def begin(self, **body):
        """Begin a session; return its path."""
        return f"/sessions/{self.post('/sessions', **body)['session_id']}"

    def say(self, session, *messages, **more):
        """Send messages, texts being a user's; return the message that is answered."""
        chat = [{"role": "user", "content": each} if isinstance(each, str) else each for each in messages]
        answer = self.post(f"{session}/v1/chat/completions", model="m", messages=chat, **more)
        return answer["choices"][0]["message"]


@contextmanager
def talking(model, engine, *, env=None, env_options=None, token=None, limits=None, journal=None, **parts):
    """Run a gateway; ``env`` is the id of an environment, ``journal`` a folder."""
    limits = GatewayLimits(**(limits or {}))
    service = None if env is None else EnvService.open(env, EnvLimits(sessions=16), options=env_options)
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(model, engine, Path(journal or folder), token, limits=limits, env=service, **parts) as talk,
    ):
        yield talk


@contextmanager
def serving(model, engine, journal, token=None, **parts):
    gateway = Gateway(model.chat, engine, model.stop_ids, SessionJournal(journal), **parts)
    with AppServer("127.0.0.1", 0, partial(make_app, gateway, token)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Talking(server.url, gateway)
        finally:
            server.stop()
            thread.join()
