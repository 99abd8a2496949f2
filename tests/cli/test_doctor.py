"""``agentgym doctor --cpu`` and ``agentgym train --plan``: what a machine does, and what it would hold."""

import json

import pytest

from agentgym.training import doctor
from agentgym.training.config import override

QWEN = {
    "model_type": "qwen2",
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}
PLAN = ("train", "grpo", "--env", "agentgym/EZPoints-v0", "--preset", "plain")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text(json.dumps(QWEN))
    return str(folder)


def test_the_doctor_examines_each_learner_path_of_a_cpu(cli, tmp_path):
    code, out, err = cli("doctor", "--cpu", "--out", tmp_path / "report.json")
    assert code == 0, out + err
    report = json.loads((tmp_path / "report.json").read_text())
    checks = {check["name"]: check for check in report["checks"]}
    assert {"policy, reference", "policy, critic of steps", "bfloat16 against float32"} <= checks.keys()
    assert all(check["ok"] and not check["error"] for check in checks.values())
    numbers = checks["policy, critic of steps"]["numbers"]
    assert numbers["seconds/critic"] > 0
    assert numbers["logp_diff_mean"] < 1e-5
    assert numbers["planned_memory"] > 1 << 20
    rounded = checks["bfloat16 against float32"]["numbers"]
    assert 0 < rounded["log_prob_gap_mean"] < 0.1
    assert report["resources"]["dtype"].startswith("float32")
    assert len(out.splitlines()) == len(checks) + 1


def test_the_calls_that_a_chat_template_writes_are_read_back_or_refused(cli, refused, tmp_path):
    path = tmp_path / "own.jinja"
    told = "{{ tools | tojson if tools }}{% for m in messages %}{{ m.content }}"
    path.write_text(
        told + "{% for c in m.tool_calls %}[TOOL_CALLS][{{ c.function | tojson }}]{% endfor %}{% endfor %}"
    )
    code, out, _ = cli("doctor", path)
    assert code == 0
    assert "ok   mistral-list: 14 of 14 calls of 2 tools read back  (agentgym/HotpotQA-v0)" in out
    path.write_text(told + "{% endfor %}")
    code, out, _ = cli("doctor", path)
    assert code == 1
    assert out.count("choose another way to answer, such as --answer think-action") == len(out.splitlines())
    path.write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    code, out, _ = cli("doctor", path)
    assert (code, out.count("in the prompt: the chat template has no place for tools")) == (
        0,
        len(out.splitlines()),
    )
    path.write_text(told + "{% endfor %}{{ 'a' * 10**10 if tools }}")
    assert "the chat template is not rendered: it takes more than 512 MiB of memory" in refused(
        "doctor", path
    )
    assert "does not exist: give the path of a saved model, or OWNER/NAME" in refused(
        "doctor", tmp_path / "none"
    )
    (tmp_path / "some.txt").touch()
    assert "is neither a model directory nor a chat template" in refused("doctor", tmp_path / "some.txt")


def test_types_are_compared_where_updates_are_weighted_as_on_a_gpu():
    config = override(doctor._config("grpo", "tiny:0.1m", "cpu", 2, 2), {"learner.importance_cap": 2.0})
    ok, numbers = doctor._compare_types(config)
    assert ok
    assert numbers["grad_norm_bfloat16"] > 0


def test_a_check_that_fails_is_reported_and_the_others_go_on(cli, monkeypatch):
    def broken(*_):
        raise RuntimeError("out of memory\nand more")

    monkeypatch.setattr(doctor, "_iterate", broken)
    monkeypatch.setattr(doctor, "_compare_types", lambda _: (True, {"log_prob_gap_mean": 0.01}))
    code, out, _ = cli("doctor", "--cpu")
    assert code == 1
    assert "FAIL policy, reference" in out
    assert "RuntimeError: out of memory" in out
    assert "ok   bfloat16 against float32" in out


def test_a_gpu_that_is_not_there_is_one_line(cli):
    code, _, err = cli("doctor", "--gpu")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "there is no CUDA device here" in err


def test_memory_is_planned_before_anything_is_loaded(cli, model):
    code, out, _ = cli(*PLAN, "--model", model, "--plan", 8, "--device-memory", 80)
    assert code == 0
    assert "1.54 billion parameters, 28 layers" in out
    assert "bfloat16; old log-probabilities: recompute" in out
    for part in ("weights", "gradients", "moments", "engine", "key-value cache", "activations", "head"):
        assert part in out
    code, out, _ = cli(*PLAN, "--model", model, "--plan", "--device-memory", 16)
    assert code == 1
    assert "This does not fit" in out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--plan", "--device-memory", "80"), "is made for its environment: plan for --model DIRECTORY"),
        (("--plan", "0", "--device-memory", "80"), "at least one device"),
        (("--device-memory", "80"), "give --plan as well"),
    ],
)
def test_a_plan_that_cannot_be_made_is_one_line(cli, words, complaint):
    code, _, err = cli(*PLAN, *words)
    assert (code, len(err.splitlines())) == (2, 1)
    assert complaint in err
