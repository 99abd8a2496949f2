"""A stand-in for vLLM: the part of its interface that the engine uses, over plain forward passes.

It has what made the real one go wrong: a head that computes with a packed copy of tied weights, a cache
of prefixes that outlives a change of the weights, an end of sequence that stops unless it is told not
to, and global generators that it seeds and draws from.
"""

import json
import random
import sys
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn
from torch.func import functional_call
from torch.nn.functional import linear
from transformers import AutoModelForCausalLM


@dataclass(kw_only=True)
class SamplingParams:
    temperature: float = 1.0
    top_p: float = 0.9
    top_k: int = 20
    max_tokens: int = 16
    seed: int | None = None
    stop_token_ids: list[int] = field(default_factory=list)
    allowed_token_ids: list[int] | None = None
    ignore_eos: bool = False
    detokenize: bool = True
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    output_kind: str = "cumulative"

    def __post_init__(self):
        assert self.seed is None or 0 <= self.seed < 1 << 63
        assert (self.top_p, self.top_k, self.logprobs, self.detokenize) == (1.0, -1, 0, False)
        assert self.output_kind in ("final only", "delta")
        assert self.allowed_token_ids is None or self.allowed_token_ids


def tokens_prompt(*, prompt_token_ids):
    return {"prompt_token_ids": prompt_token_ids}


@dataclass(frozen=True)
class LoRARequest:
    lora_name: str
    lora_int_id: int
    lora_path: str


@dataclass(frozen=True)
class PlaceholderRange:
    offset: int
    length: int


class FieldConfig:
    """How a tensor of all pictures falls into those of each."""

    flat_from_sizes = staticmethod(lambda modality, sizes: lambda batch: batch.split(sizes.tolist()))
    batched = staticmethod(lambda modality, keep_on_cpu: lambda batch: list(batch))


class KwargsItems:
    @staticmethod
    def from_hf_inputs(tensors, fields):
        parts = {name: field(tensors[name]) for name, field in fields.items()}
        return [dict(zip(parts, each, strict=True)) for each in zip(*parts.values(), strict=True)]


@dataclass(frozen=True)
class WeightTransferConfig:
    backend: str


class WeightTransferEngine:
    def __init__(self, config, vllm_config, device, model):
        self.model = model
        self.model_config = vllm_config


class Factory:
    def __init__(self):
        self.registry = {}

    def register_engine(self, name, engine):
        assert name not in self.registry
        self.registry[name] = engine


class Head(nn.Module):
    """A head that shares the embedding's weights and computes with a copy of them."""

    def __init__(self, weight):
        super().__init__()
        self.weight = weight
        self.quant_method = SimpleNamespace(process_weights_after_loading=lambda head: head.pack())
        self.pack()

    def pack(self):
        self.packed = self.weight.detach().clone()


class Model(nn.Module):
    """The model as vLLM holds it."""

    def __init__(self, directory):
        super().__init__()
        whole = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
        self.ends = np.atleast_1d(whole.generation_config.eos_token_id).tolist()
        self.model = whole.model
        self.lm_head = Head(self.model.embed_tokens.weight)
        self.open = False
        """Whether the layers are in the form that weights are loaded in."""

    def load_weights(self, weights):
        assert self.open
        own = dict(self.named_parameters())
        for name, tensor in weights:
            assert name != "lm_head.weight", "a tied head is not in checkpoints"
            own[name].data.copy_(tensor)

    def forward(self, ids):
        return linear(self.model(torch.tensor([ids])).last_hidden_state[0, -1], self.lm_head.packed)


def initialize_layerwise_reload(model):
    assert not model.open
    model.open = True


def finalize_layerwise_reload(model, config):
    assert model.open
    model.open = False


class LLM:
    def __init__(self, **options):
        self.options = options
        random.seed(options["seed"])
        np.random.seed(options["seed"])  # noqa: NPY002
        torch.manual_seed(options["seed"])
        self.model = Model(options["model"])
        self.cache = {}
        self.slept = []
        self.waking = set()
        self.asked = []
        self.prompts = []
        self.running = {}
        self.clock = 0
        self.phases = []
        self.lora, self.adapted = None, {}
        """Number of the newest adapter, and weights that it is added to."""
        self.finish_reason = None
        """What every response ends for, if set."""
        self.forgets = True
        factory = sys.modules["vllm.distributed.weight_transfer.factory"].WeightTransferEngineFactory
        backend = factory.registry[options["weight_transfer_config"].backend]
        self.transfer = backend(options["weight_transfer_config"], SimpleNamespace(), None, self.model)

    # ---- weights ---------------------------------------------------------------------------

    def init_weight_transfer_engine(self, request):
        assert not self.phases
        self.phases.append("init")
        self.transfer.init_transfer_engine(self.transfer.init_info_cls(**request["init_info"]))

    def sleep(self, *, level):
        assert self.options["enable_sleep_mode"]
        self.slept.append(level)
        self.cache.clear()
        self.waking = {"weights", "kv_cache"}

    def wake_up(self, *, tags):
        (part,) = tags
        self.waking.remove(part)
        self.slept.append(part)

    def start_weight_update(self):
        assert "weights" not in self.waking
        assert self.phases[-1] in ("init", "reset")
        self.phases.append("start")
        self.transfer.start_weight_update()

    def update_weights(self, request):
        assert self.phases[-1] == "start"
        self.phases.append("update")
        with torch.no_grad():
            self.transfer.receive_weights(self.transfer.update_info_cls(**request["update_info"]))

    def finish_weight_update(self):
        assert self.phases[-1] == "update"
        self.phases.append("finish")
        self.transfer.finish_weight_update()

    def reset_prefix_cache(self):
        assert self.phases[-1] == "finish" or self.lora
        assert not self.running
        self.phases.append("reset")
        self.cache.clear()
        return self.forgets

    # ---- generation ------------------------------------------------------------------------

    @property
    def llm_engine(self):
        return self

    def add_lora(self, request):
        """Read an adapter, which requests that name it are drawn with; the base stays as it is."""
        assert self.options["enable_lora"]
        settings = json.loads((Path(request.lora_path) / "adapter_config.json").read_text())
        assert settings["r"] <= self.options["max_lora_rank"]
        tensors = load_file(Path(request.lora_path) / "adapter_model.safetensors")
        scale, own = settings["lora_alpha"] / settings["r"], dict(self.model.named_parameters())
        parts = {name.removeprefix("base_model.model.").rpartition(".lora_")[0] for name in tensors}
        self.lora = request.lora_int_id
        self.adapted = {
            f"{part}.weight": own[f"{part}.weight"].detach()
            + scale
            * torch.matmul(*(tensors[f"base_model.model.{part}.lora_{k}.weight"].float() for k in "BA"))
            for part in parts
        }

    def add_request(self, request_id, prompt, parameters, lora_request=None):
        assert isinstance(request_id, str)
        assert not self.waking
        assert request_id not in self.running
        asked = (tuple(prompt["prompt_token_ids"]), parameters)
        self.asked.append(asked)
        self.prompts.append(prompt)
        assert (None if lora_request is None else lora_request.lora_int_id) == self.lora
        self.running[request_id] = [self.clock, asked, None]

    def step(self):
        """Let each request whose last token it is be over, in the order in which they came."""
        assert not self.model.open
        torch.rand(1)
        self.clock += 1
        outputs = []
        for number, request in list(self.running.items()):
            begun, asked, whole = request
            if whole is None:
                whole = request[2] = self._answer(*asked)
            answer = copy(whole)
            answer.outputs = (sample,) = [copy(each) for each in whole.outputs]
            answer.request_id, drawn = number, self.clock - begun
            answer.finished = drawn >= len(sample.token_ids)
            if asked[1].output_kind == "delta":
                sample.token_ids = sample.token_ids[drawn - 1 : drawn]
                sample.logprobs = sample.logprobs[drawn - 1 : drawn]
                sample.finish_reason = sample.finish_reason if answer.finished else None
            if answer.finished:
                del self.running[number]
            if answer.finished or asked[1].output_kind == "delta":
                outputs.append(answer)
        return outputs

    def abort_request(self, numbers):
        for number in numbers:
            del self.running[number]

    def _answer(self, prompt, chosen):
        generator = None if chosen.seed is None else torch.Generator().manual_seed(chosen.seed)
        ids, places, finish = list(prompt), [], None
        while finish is None:
            assert len(ids) < self.options["max_model_len"]
            logits = self._logits(ids, cached=True)
            if chosen.allowed_token_ids is not None:
                inside = torch.zeros_like(logits, dtype=torch.bool)
                inside[chosen.allowed_token_ids] = True
                logits = logits.masked_fill(~inside, -torch.inf)
            logits = logits / (chosen.temperature or 1.0)
            noise = -torch.empty(len(logits)).exponential_(generator=generator).log()
            token = int((logits if chosen.temperature == 0 else logits + noise).argmax())
            ids.append(token)
            places.append(_place(logits, token))
            if token in chosen.stop_token_ids or (token in self.model.ends and not chosen.ignore_eos):
                finish = "stop"
            elif len(places) == chosen.max_tokens:
                finish = "length"
        answer = SimpleNamespace(
            token_ids=ids[len(prompt) :], logprobs=places, finish_reason=self.finish_reason or finish
        )
        return SimpleNamespace(outputs=[answer], prompt_logprobs=self._scores(prompt, chosen), finished=True)

    def _scores(self, prompt, chosen):
        if chosen.prompt_logprobs is None:
            return None
        places = range(1, len(prompt))
        return [None, *(_place(self._logits(prompt[:end], cached=False), prompt[end]) for end in places)]

    def _logits(self, ids, *, cached):
        key = tuple(ids)
        if not cached or key not in self.cache:
            with torch.no_grad():
                self.cache[key] = functional_call(self.model, self.adapted, (list(ids),))
        return self.cache[key]


def _place(logits, token):
    return {token: SimpleNamespace(logprob=logits.log_softmax(-1)[token].item())}


def install(monkeypatch):
    """Put the stand-in where vLLM would be imported from."""

    @dataclass
    class Init:
        pass

    @dataclass
    class Update:
        pass

    contents = {
        "vllm": {"LLM": LLM, "SamplingParams": SamplingParams, "TokensPrompt": tokens_prompt},
        "vllm.sampling_params": {
            "RequestOutputKind": SimpleNamespace(FINAL_ONLY="final only", DELTA="delta")
        },
        "vllm.config": {"WeightTransferConfig": WeightTransferConfig},
        "vllm.lora": {},
        "vllm.lora.request": {"LoRARequest": LoRARequest},
        "vllm.distributed": {},
        "vllm.distributed.weight_transfer": {},
        "vllm.distributed.weight_transfer.base": {
            "WeightTransferEngine": WeightTransferEngine,
            "WeightTransferInitInfo": Init,
            "WeightTransferUpdateInfo": Update,
        },
        "vllm.distributed.weight_transfer.factory": {"WeightTransferEngineFactory": Factory()},
        "vllm.multimodal": {},
        "vllm.multimodal.inputs": {
            "MultiModalFieldConfig": FieldConfig,
            "MultiModalKwargsItems": KwargsItems,
            "PlaceholderRange": PlaceholderRange,
        },
        "vllm.model_executor": {},
        "vllm.model_executor.model_loader": {},
        "vllm.model_executor.model_loader.reload": {
            "initialize_layerwise_reload": initialize_layerwise_reload,
            "finalize_layerwise_reload": finalize_layerwise_reload,
        },
    }
    made = {name: ModuleType(name) for name in contents}
    for name, attributes in contents.items():
        vars(made[name]).update(attributes)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(made[parent], child, made[name])
        monkeypatch.setitem(sys.modules, name, made[name])
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "")  # so that it is put back afterwards
    monkeypatch.delenv("VLLM_ENABLE_V1_MULTIPROCESSING")
