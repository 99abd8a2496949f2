"""Weights of servers: sleep around a sync, checksums after it, shared memory, and vLLM's own transfer."""

# ruff: noqa: F811 (fixtures of another file)

import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace

import pytest
import torch

from agentgym.errors import UsageError
from agentgym.inference.engines import server_weights
from agentgym.inference.engines.server import ServerEngine
from agentgym.inference.engines.server_weights import NcclSender
from agentgym.inference.engines.sync_check import CanaryError
from agentgym.inference.engines.vllm_server import VllmServer
from tests.training.stub_vllm_server import StubServer
from tests.training.test_server_engine import asked, changed, directory, learner, opened, servers  # noqa: F401


@pytest.mark.parametrize("level", [1, 2])
def test_servers_that_sleep_are_woken_by_the_next_sync(servers, learner, level):
    engine = opened(servers, learner, sleep_level=level)
    (before,) = engine.generate([asked(learner, tokens=4)])
    engine.rest()
    with pytest.raises(UsageError, match="weights are not known: sync first"):
        engine.generate([asked(learner)])
    engine.sync(learner.named_parameters(), 4)
    for server in servers:
        assert server.slept == [f"level={level}", "tags=weights", "tags=kv_cache"]
        paths = [path for path, _ in server.asked]
        loaded, woken = (
            paths.index("/collective_rpc"),
            [n for n, path in enumerate(paths) if path == "/wake_up"],
        )
        assert woken[0] < loaded < woken[1]
    assert engine.generate([asked(learner, tokens=4)])[0].ids == before.ids
    awake = opened(servers, learner)
    awake.rest()
    assert awake.generate([asked(learner, tokens=4)])[0].ids == before.ids


def test_checksums_notice_a_tensor_that_did_not_come(servers, learner, monkeypatch):
    engine = opened(servers, learner)
    plain = StubServer.reload

    def reload(server, body):
        before = server.model.model.norm.weight.detach().clone()
        answer = plain(server, body)
        server.model.model.norm.weight.data.copy_(before)
        return answer

    monkeypatch.setattr(StubServer, "reload", reload)
    newer = {name: weight.detach().clone() for name, weight in learner.named_parameters()}
    newer["model.norm.weight"][0] += 1e-6  # which log-probabilities do not show
    with pytest.raises(CanaryError, match=r"1 of \d+ parameters .*norm\.weight, are not to the bit"):
        engine.sync(newer.items(), 4)


@pytest.mark.parametrize(("free", "shared"), [(1 << 40, True), (100, False)])
def test_weights_go_by_shared_memory_where_they_fit(servers, learner, tmp_path, monkeypatch, free, shared):
    monkeypatch.setattr(server_weights, "SHARED", tmp_path)
    monkeypatch.setattr(server_weights.shutil, "disk_usage", lambda place: SimpleNamespace(free=free))
    opened(servers, learner).sync(changed(learner).items(), 4)
    bodies = [body for path, body in servers[0].asked if path == "/collective_rpc"]
    (place,) = (body["kwargs"]["weights_path"] for body in bodies)
    assert place.startswith(str(tmp_path)) is shared
    assert list(tmp_path.iterdir()) == []


# ---- vLLM's own transfer ---------------------------------------------------------------------------


class Trainer:
    """The sender's half of vLLM's transfer, as far as it asks servers."""

    sent: dict = {}  # noqa: RUF012

    @classmethod
    def trainer_init(cls, info, *, client, source):
        self = cls()
        self.info, self.client, self.source = info, client, source
        client.init_weight_transfer_engine({"rank_offset": 1, "world_size": info.world_size})
        return self

    def send_weights(self):
        metas = self.source.metadata()
        self.client.start_weight_update()
        self.client.update_weights({"names": [meta.name for meta in metas]})
        Trainer.sent = dict(self.source)
        assert [meta.name for meta in metas] == list(Trainer.sent)
        assert all(meta.shape == tuple(Trainer.sent[meta.name].shape) for meta in metas)
        self.client.finish_weight_update()


@dataclass
class InitInfo:
    master_address: str
    master_port: int
    world_size: int
    rank: int


@dataclass
class ParamMeta:
    name: str
    dtype: torch.dtype
    shape: tuple


def test_weights_by_vllm_s_own_transfer_go_through_its_phases(servers, learner, monkeypatch):
    base, nccl = ModuleType("base"), ModuleType("nccl_engine")
    base.WeightSource, base.ParamMeta = object, ParamMeta
    nccl.NCCLTrainerInitInfo, nccl.NCCLTrainerWeightTransferEngine = InitInfo, Trainer
    for name in ("vllm", "vllm.distributed", "vllm.distributed.weight_transfer"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "vllm.distributed.weight_transfer.base", base)
    monkeypatch.setitem(sys.modules, "vllm.distributed.weight_transfer.nccl_engine", nccl)
    found = [VllmServer(server.url) for server in servers]
    engine = ServerEngine([server.url for server in servers], learner, dtype=torch.float32)
    sender = NcclSender()
    for version in range(2):
        sender.send(found, engine._to_all, changed(learner, 1 + version))
        assert all(torch.equal(Trainer.sent[n], w * (1 + version)) for n, w in learner.named_parameters())
    for place, server in enumerate(servers):
        paths = [path for path, _ in server.asked[-7:]]
        update = ["/start_weight_update", "/update_weights", "/finish_weight_update"]
        assert paths == ["/init_weight_transfer_engine", *update, *update]
        (joined,) = [body for path, body in server.asked if path == "/init_weight_transfer_engine"]
        assert joined["init_info"] == {"rank_offset": 1 + 2 * place, "world_size": 5}
    sender.send(found[:1], engine._to_all, changed(learner))  # one is lost: the others join anew
    assert servers[0].asked[-4][1]["init_info"]["world_size"] == 3
