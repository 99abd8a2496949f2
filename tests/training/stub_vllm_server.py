"""A stub of ``vllm serve``: the part of its HTTP interface that the engine over servers uses.

Tokens are real: the engine over `transformers` draws them with the model of a directory. As vLLM 0.32 does,
it keeps requests while it is paused, reads them anew under new weights, says of each token which weights drew
it, and calls those it was started with "default".
"""

import copy
import json
import os
import sys
from concurrent.futures import TimeoutError as NotYetError
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import torch
from safetensors.torch import load_file

from agentgym.errors import UsageError
from agentgym.inference.engines import standalone
from agentgym.inference.engines.choices import ActionTrie
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.engines.sync_check import checksums
from agentgym.inference.engines.types import GenerationRequest, Sampling
from agentgym.inference.engines.vllm_worker import METHOD
from agentgym.inference.models.language_model import load_model
from agentgym.inference.models.lora import merged_weights
from agentgym.training.machine import serving as serving_module
from tests.waiting import wait_until


class PausingEngine(HfEngine):
    """An engine that can be held between two steps, at once or after so many of them."""

    paused = False
    left = -1
    """Steps until it is paused; below 0 none are counted."""

    def _may_step(self):
        return not self.paused and self.left != 0 and super()._may_step()

    def _step(self, waiting):
        self.left -= self.left > 0
        return super()._step(waiting)

    def pause(self):
        with self._changed:
            self.paused = True
            self._changed.wait_for(lambda: not self._stepping)

    def resume(self):
        with self._changed:
            self.paused, self.left = False, -1
            self._changed.notify_all()


class StubServer(ThreadingHTTPServer):
    """The server; its attributes make it go wrong."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, directory, port=0, *, context=None):
        self.model = load_model(directory).model
        self.engine = PausingEngine(self.model)
        self.engine.start(updates_in_flight=True)
        self.labels = ["default"]
        """Of the weights, by the engine's version."""
        self.context = context or self.engine.context_length
        self.dead = False
        """Whether it hangs up on whoever asks."""
        self.hung = False
        """Whether it takes requests, and answers none."""
        self.raw = False
        """Whether it reports log-probabilities before they are processed."""
        self.missing = {}
        """Status by path."""
        self.takes_weights = True
        self.slept = []
        """What was asked of its sleep, in order."""
        self.asleep = set()
        self.base, self.adapters = copy.deepcopy(self.model), []
        """Weights from the start, and what draws in their place."""
        self.asked = []
        """Paths and bodies."""
        super().__init__(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):
        """Say nothing of connections that were closed."""

    def kill(self):
        """Answer nobody any more, whoever waits included."""
        self.dead = True
        self.shutdown()
        self.server_close()

    def generations(self):
        return [body for path, body in self.asked if path == "/inference/v1/generate"]

    # ---- paths ---------------------------------------------------------------------------------

    def generate(self, body):
        ids, chosen = body["token_ids"], body["sampling_params"]
        assert [body[name] for name in ("model",) if name in body] == self.adapters
        assert (chosen["detokenize"], chosen["logprobs"], self.asleep) == (False, 0, set())
        size = self.model.config.vocab_size
        if max(ids) >= size:
            raise UsageError(f"Token id {max(ids)} is out of vocabulary")
        if len(ids) >= self.context:
            raise UsageError(f"The prompt (length {len(ids)}) is longer than {self.context}")
        allowed = chosen.get("allowed_token_ids")
        trie = None if allowed is None else ActionTrie({str(t): (t,) for t in allowed}, end=size)
        sampling = Sampling(
            temperature=chosen["temperature"],
            max_tokens=chosen["max_tokens"],
            stop_ids=tuple(chosen.get("stop_token_ids", ())),
        )
        scores = self.scores(ids) if "prompt_logprobs" in chosen else None
        # none begins, not even one that has no alternative
        wait_until(lambda: not self.engine.paused or self.dead)
        future = self.engine.submit(GenerationRequest(tuple(ids), trie, sampling, chosen.get("seed") or 0))
        while True:
            try:
                found = future.result(0.01)
                break
            except NotYetError:
                if self.dead:
                    raise ConnectionError from None
        versions = found.versions or (found.version,) * len(found.ids)
        spans = [
            {"version": self.labels[version], "start": place, "end": place + 1}
            for place, version in enumerate(versions)
        ]
        content = [
            {"token_id": token, "logprob": logprob - self.raw}
            for token, logprob in zip(found.ids, found.logprobs, strict=True)
        ]
        choice = {
            "index": 0,
            "finish_reason": "length" if found.finish == "choice" else found.finish,
            "token_ids": found.ids,
            "logprobs": {"content": content},
            "weight_versions": spans,
        }
        return {"choices": [choice], "prompt_logprobs": scores}

    def scores(self, ids):
        with torch.no_grad():
            rows = self.model(torch.tensor([ids])).logits[0].log_softmax(-1)
        places = [{str(ids[k]): {"logprob": rows[k - 1, ids[k]].item()}} for k in range(1, len(ids))]
        return [None, *places]

    def sleep(self, query):
        assert not self.engine._open
        self.slept.append(query)
        self.asleep = {"weights", "kv_cache"}

    def wake(self, query):
        self.slept.append(query)
        self.asleep.discard(query.removeprefix("tags="))

    def sums(self, body):
        found = checksums(dict(self.model.named_parameters()))
        return {"checksums": {f"dp0:pp0:pcp0:tp0:{name}": digest for name, digest in found.items()}}

    def reload(self, body):
        assert self.engine.paused
        assert "weights" not in self.asleep
        if body["method"] == METHOD:
            return {"results": [None]}
        assert body["method"] == "reload_weights"
        state = load_file(Path(body["kwargs"]["weights_path"]) / "model.safetensors")
        if self.takes_weights:
            self.engine.sync(state.items(), len(self.labels))
        self.labels.append("default")
        return {"results": [None]}

    def load_adapter(self, body):
        """Draw with an adapter beside the weights, and say so in words, as vLLM does."""
        assert self.engine.paused
        assert body["lora_name"] not in self.adapters
        assert not body.get("load_inplace")  # which vLLM would do at every step
        adapted = copy.deepcopy(self.base)
        adapted.load_adapter(body["lora_path"])
        if self.takes_weights:
            self.engine.sync(merged_weights(adapted), len(self.labels))
        self.labels.append("default")
        self.adapters.append(body["lora_name"])
        return "Success: LoRA adapter added successfully."

    def unload_adapter(self, body):
        self.adapters.remove(body["lora_name"])
        return "Success: LoRA adapter removed successfully."

    def update_version(self, body):
        if self.engine.version != len(self.labels) - 1:
            self.engine._version = len(self.labels) - 1
        self.labels[-1] = body["new_version"]
        return {"success": True}

    def models(self, body):
        return {"data": [{"id": "stub", "max_model_len": self.context}]}

    def answer(self, path, body):
        plain = {
            "/v1/models": self.models,
            "/health": lambda body: None,
            "/is_paused": lambda body: {"is_paused": self.engine.paused},
            "/get_world_size": lambda body: {"world_size": 2},
            "/inference/v1/generate": self.generate,
            "/collective_rpc": self.reload,
            "/v1/load_lora_adapter": self.load_adapter,
            "/v1/unload_lora_adapter": self.unload_adapter,
            "/update_weight_version": self.update_version,
            "/sleep": self.sleep,
            "/wake_up": self.wake,
            "/pause": lambda body: self.engine.pause(),
            "/resume": lambda body: self.engine.resume(),
            "/weight_checker": self.sums,
        }
        return plain.get(path, lambda body: None)(body)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        """Say nothing."""

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        self.reply(json.loads(self.rfile.read(length)) if length else None)

    def do_GET(self):
        self.reply(None)

    def reply(self, body):
        server, (_, _, path, query, _) = self.server, urlsplit(self.path)
        self.close_connection = True
        if server.dead:
            return
        server.asked.append((path, body))
        wait_until(lambda: not server.hung or server.dead)
        status = server.missing.get(path, 200)
        try:
            if path in ("/sleep", "/wake_up"):
                body = query
            answer = server.answer(path, body) if status == 200 else {"error": {"message": f"stub {status}"}}
        except UsageError as error:
            status, answer = 400, {"error": {"message": str(error)}}
        except ConnectionError:
            return
        except Exception as error:  # noqa: BLE001 (as vLLM answers whatever went wrong)
            status, answer = 500, {"error": {"message": f"{type(error).__name__}: {error}"}}
        text = (answer if isinstance(answer, str) else "" if answer is None else json.dumps(answer)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@contextmanager
def serving(directory, number=1, **options):
    """Yield so many servers."""
    servers = [StubServer(directory, **options) for _ in range(number)]
    for server in servers:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield servers
    finally:
        for server in servers:
            if not server.dead:
                server.kill()


class StubProcess:
    """A server in this process, in the place of `VllmProcess`."""

    started = []  # noqa: RUF012

    def __init__(self, directory, options, *, devices="", log=None):
        self.server = StubServer(directory, context=options.get("max_model_len"))
        self.options, self.devices, self.log, self.url = options, devices, log, self.server.url
        self.closed = False
        Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        StubProcess.started.append(self)

    def close(self):
        self.closed = True
        if not self.server.dead:
            self.server.kill()


def install(monkeypatch):
    """Put stubs in the place of processes; return those that are started."""
    StubProcess.started = []
    for module in (serving_module, standalone):
        monkeypatch.setattr(module, "VllmProcess", StubProcess)
    return StubProcess.started


MODULE = f"""import json, os, runpy, sys
from pathlib import Path
names = ("CUDA_VISIBLE_DEVICES", "VLLM_SERVER_DEV_MODE", "LOCAL_RANK")
found = {{"arguments": sys.argv[1:], "pid": os.getpid(), **{{name: os.environ.get(name) for name in names}}}}
Path(os.environ["STUB_RECORD"]).write_text(json.dumps(found))
if "STUB_CHILD" in os.environ:
    import subprocess
    subprocess.Popen(["sh", "-c", os.environ["STUB_CHILD"]])
if os.environ.get("STUB_FAILS"):
    sys.exit(os.environ["STUB_FAILS"])
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
runpy.run_module("tests.training.stub_vllm_server", run_name="__main__")
"""


def install_module(monkeypatch, folder):
    """Put a package vllm on the path, whose server is a stub; return where it writes how it was started."""
    place = folder / "packages" / "vllm" / "entrypoints" / "openai"
    place.mkdir(parents=True)
    for each in (place, place.parent, place.parent.parent):
        (each / "__init__.py").touch()
    (place / "api_server.py").write_text(MODULE)
    monkeypatch.syspath_prepend(folder / "packages")
    monkeypatch.setenv("PYTHONPATH", str(folder / "packages"), prepend=os.pathsep)
    monkeypatch.setenv("STUB_RECORD", str(folder / "record.json"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # so that it is put back afterwards
    return folder / "record.json"


if __name__ == "__main__":
    arguments = dict(zip(sys.argv[1:-1], sys.argv[2:], strict=True))
    torch.set_num_threads(1)
    StubServer(arguments["--model"], int(arguments["--port"])).serve_forever()
