"""A stub of ``vllm serve``: the part of its HTTP interface that the engine over servers uses.

Tokens are real: the engine over `transformers` draws them with the model of a directory. As vLLM 0.32 does,
it keeps requests while it is paused, reads them anew under new weights, says of each token which weights drew
it, and calls those it was started with "default".
"""

import copy
import json
import os
import subprocess
import sys
from concurrent.futures import TimeoutError as NotYetError
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import create_server
from threading import Thread
from urllib.parse import urlsplit

import torch
from safetensors.torch import load_file

from agentgym.errors import UsageError
from agentgym.inference.engines.choices import ActionTrie
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.engines.types import GenerationRequest, Sampling
from agentgym.inference.engines.vllm_server import ServerLostError, VllmServer
from agentgym.inference.models.language_model import load_model
from agentgym.inference.models.lora import merged_weights
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
        assert (chosen["detokenize"], chosen["logprobs"]) == (False, 0)
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

    def reload(self, body):
        assert self.engine.paused
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
            "/pause": lambda body: self.engine.pause(),
            "/resume": lambda body: self.engine.resume(),
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
        server, path = self.server, urlsplit(self.path).path
        self.close_connection = True
        if server.dead:
            return
        server.asked.append((path, body))
        wait_until(lambda: not server.hung or server.dead)
        status = server.missing.get(path, 200)
        try:
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


@contextmanager
def serving_vllm(directory):
    """Yield the address of a process of vLLM that serves."""
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]  # ``vllm serve`` of every build
    command += ["--model", str(directory), "--port", str(port), "--dtype", "float32", "--enforce-eager"]
    command += ["--enable-scale-out", "--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"]
    given = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", **os.environ}
    given["VLLM_SERVER_DEV_MODE"] = "1"
    given.pop("VLLM_ENABLE_V1_MULTIPROCESSING", None)
    output = subprocess.DEVNULL
    with subprocess.Popen(command, env=given, stdout=output, stderr=output) as process:
        server = VllmServer(f"http://127.0.0.1:{port}")
        try:
            wait_until(lambda: process.poll() is not None or healthy(server), 600)
            yield server.url
        finally:
            process.terminate()


def healthy(server):
    with suppress(ServerLostError):
        server.ask("/health", method="GET")
        return True
    return False


def with_own_head(made):
    """Return a model with a head that is not tied: vLLM's build for processors reloads no tied one."""
    made.model.config.tie_word_embeddings = False
    made.model.lm_head.weight = torch.nn.Parameter(made.model.lm_head.weight * 1.05)
    return made


if __name__ == "__main__":
    arguments = sys.argv[1:]
    torch.set_num_threads(1)
    port = int(arguments[arguments.index("--port") + 1])
    StubServer(arguments[arguments.index("serve") + 1], port).serve_forever()
