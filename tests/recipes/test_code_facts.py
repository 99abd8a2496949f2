"""Settings from public code: each is where it says, as a second hand read it, and a change is noticed."""

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.recipes import find_recipe
from agentgym.recipes.reader import public_sources, root
from tests.recipes import code_facts
from tools.launch_script import launch
from tools.public_code import PLACE, all_recipes, as_toml, cited, facts_of, file_of

SECOND_HAND = tomllib.loads(Path(__file__).with_name("second_hand.toml").read_text(encoding="utf-8"))

WITHOUT_HISTORY = ("gym_cards.py", "sokoban.py", "SOTOPIA:")
"""Prompts that show no past turns, whatever the history is set to."""


@pytest.mark.parametrize("name", SECOND_HAND)
def test_a_recipe_is_what_the_second_hand_derived(name: str) -> None:
    recipe = find_recipe(name)
    for setting, value in SECOND_HAND[name].items():
        line = recipe.settings[setting]
        ours = line.departs or PLACE.fullmatch(line.source) is None  # what a paper prints goes first
        unread = setting == "prompting.history" and any(part in line.source for part in WITHOUT_HISTORY)
        assert line.value == value or ours or unread, (setting, line, value)


def test_the_second_hand_had_forty_runs_of_every_paper() -> None:
    assert len(SECOND_HAND) >= 40
    papers = {"steppo", "capo", "gigpo", "graphgpo", "3spo", "hgpo", "g2po", "sampo", "istar"}
    assert {name.partition("/")[0] for name in SECOND_HAND} == papers


def test_facts_are_of_the_cited_files_alone_and_no_reading_is_left_over() -> None:
    read = {f"{place['repository']}:{place['path']}:{place['key']}" for place in places()}
    assert set(code_facts.readings()) <= read
    for repository, paths in cited().items():
        assert set(code_facts.facts(repository)) - {"repository", "commit"} == paths


def places():
    lines = (line for recipe in all_recipes() for line in recipe.settings.values())
    return [place.groupdict() for line in lines if (place := PLACE.fullmatch(line.source))]


CHANGES = {
    "another value": (
        "gigpo/gigpo-webshop",
        "rollout.group_size",
        {"source": "langfengQ/verl-agent@20bd331b:examples/gigpo_trainer/run_webshop.sh:env.max_steps"},
        "rollout.group_size is not what the key sets: env_options.max_steps",
    ),
    "another setting's key with the same value": (
        "gigpo/gigpo-webshop",
        "iterations",
        {
            "source": "langfengQ/verl-agent@20bd331b:examples/gigpo_trainer/run_webshop.sh:env.rollout.n",
            "value": 8,
        },
        "iterations is not what the key sets: rollout.group_size",
    ),
    "another value of its own key": (
        "gigpo/gigpo-webshop",
        "env_options.max_steps",
        {
            "source": "langfengQ/verl-agent@20bd331b:examples/gigpo_trainer/run_webshop.sh:env.max_steps",
            "value": 5,
        },
        "env_options.max_steps is 5, 15 there",
    ),
    "what a command prints": (
        "capo/grpo-hotpotqa",
        "evaluation.split",
        {"source": "AgentR1/CAPO@35685311:examples/hotpotqa/run_grpo.sh:data.val_files", "value": ""},
        "is not known",
    ),
    "no such key": (
        "gigpo/gigpo-webshop",
        "learner.dtype",
        {"source": "langfengQ/verl-agent@20bd331b:examples/gigpo_trainer/run_webshop.sh:dtype"},
        "the file has no such key",
    ),
    "another commit": (
        "gigpo/gigpo-webshop",
        "learner.dtype",
        {"source": "langfengQ/verl-agent@00000000:examples/gigpo_trainer/run_webshop.sh:dtype"},
        "make check-recipes CHECKOUTS",
    ),
    "a function that no reading covers": (
        "steppo/steppo-webshop",
        "algorithm_options.lam",
        {"source": "AgentR1/StepPO@26107f1d:arft/core_algos.py:compute_gae_advantage_return"},
        "no reading covers",
    ),
    "no place": ("gigpo/gigpo-webshop", "learner.dtype", {"source": "verl-agent: a file"}, "is no OWNER"),
    "a departure that names another value": (
        "gigpo/gigpo-webshop",
        "env_options.max_steps",
        {
            "source": "langfengQ/verl-agent@20bd331b:examples/gigpo_trainer/run_webshop.sh:env.max_steps",
            "value": 4,
            "paper": "150, or 5",
            "why": "a test",
        },
        "15 there",
    ),
    "a departure from a reading that does not name what was read": (
        "steppo/steppo-webshop",
        "learner.old_log_probs",
        {"paper": "as the engine sampled", "why": "a test"},
        "'recompute' there",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_line_that_is_not_so_is_named(change: str) -> None:
    name, setting, changes, message = CHANGES[change]
    recipe = find_recipe(name)
    line = recipe.settings.get(setting) or recipe.settings["rollout.tasks"]
    assert message in code_facts.problem(recipe, setting, replace(line, **changes))


def test_code_that_changed_since_it_was_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = find_recipe("steppo/steppo-webshop")
    line = recipe.settings["algorithm_options.whiten"]
    assert code_facts.problem(recipe, "algorithm_options.whiten", line) == ""
    known = dict(code_facts.facts("AgentR1/StepPO"))
    known["arft/core_algos.py"] = {"compute_gae_advantage_return": "sha256:0000000000000000"}
    monkeypatch.setattr(code_facts, "facts", lambda repository: known)
    assert "since it was read" in code_facts.problem(recipe, "algorithm_options.whiten", line)


def test_protocols_name_public_code_at_the_same_commits() -> None:
    code = public_sources(root() / "sources.toml").code
    for path in root().glob("*/protocols/*.toml"):
        text = path.read_text(encoding="utf-8")
        for repository, commit in re.findall(r"([\w-]+/[\w-]+)@([0-9a-f]{8}):", text):
            assert code[repository].commit.startswith(commit), path
        assert not re.search(r"\b(?:" + "|".join(code) + r"): ", text), path


SCRIPTS = {
    "examples/run.sh": """#!/usr/bin/env bash
SCRIPT_DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
ROOT_DIR="$(cd "$SCRIPT_DIR/.." && pwd)"
export N="${N:-4}"
exec bash "$ROOT_DIR/inner/launch.sh" \\
    trainer.epochs=3 \\
    "$@"
""",
    "inner/launch.sh": """N="${N:-8}"
BATCH="${BATCH:-128}"  # of all
TASKS="$((BATCH / N))"
if [ "$TASKS" -lt 1 ]; then
    TASKS=1
fi
for seed in 7 8
do
python3 -m prepare --size $((N * 2)) --dry
python3 -m train \\
    data.tasks="$TASKS" env.seed=$seed +extra.n=$N \\
    model.path=/home/someone/models/base \\
    trainer.epochs=10 trainer.name='a b' $@
done
""",
}


def test_a_script_is_followed_without_running_it() -> None:
    assert launch("examples/run.sh", SCRIPTS.__getitem__) == {
        "--dry": "",
        "--size": "8",
        "data.tasks": "32",
        "env.seed": "7",
        "extra.n": "4",
        "model.path": "models/base",
        "trainer.epochs": "3",
        "trainer.name": "a b",
    }
    with pytest.raises(ValueError, match="launches nothing"):
        launch("empty.sh", {"empty.sh": "echo nothing\n"}.__getitem__)


UNFOLLOWED = {
    "a command's outcome": "test -d x && N=8",
    "two at once": "N=4; M=5",
    "an exported pair": "export N=4 M=5",
    "a default that is set": ': "${N:=4}"',
    "a case": "case x in\nx) N=8 ;;\nesac",
    "a line more": "N+=2",
    "words that are read": "read N <<< 8",
    "a text": "cat <<EOF\nN=8\nEOF",
    "a list of settings": 'A=(b=1)\npython3 -m train "${A[@]}"',
    "an if of one line": "if true; then N=8; fi",
    "a loop of one line": "for n in 1 2; do python3 -m train a=$n; done",
}


@pytest.mark.parametrize("form", UNFOLLOWED)
def test_a_form_that_might_set_a_value_otherwise_is_refused(form: str) -> None:
    script = f"python3 -m prepare size=1\n{UNFOLLOWED[form]}\npython3 -m train a=$N\n"
    with pytest.raises(ValueError, match=r"not followed|more than one"):
        launch("run.sh", {"run.sh": script}.__getitem__)


def test_functions_what_is_unset_and_what_follows_an_exit_set_nothing() -> None:
    script = "N=4\nf() {\nN=8\n}\nunset M\npython3 -m train a=$N b=$M\nexit 0\npython3 -m train a=9\n"
    assert launch("run.sh", {"run.sh": script}.__getitem__, {"M": "5"}) == {"a": "4", "b": ""}


def test_facts_of_yaml_are_its_leaves() -> None:
    files = {"a.yaml": "- one: 1\n- two: [1, 2]\n"}
    assert facts_of("a.yaml", files.__getitem__) == {"0.one": "1", "1.two": "[1, 2]"}


def test_facts_of_python_hold_no_code() -> None:
    files = {
        "b.py": f"LIMIT = 5\nTEXT = '{'word ' * 40}'\n"
        "class A:\n    def f(self, k=3, *, m=None):\n        return k\n",
    }
    found = facts_of("b.py", files.__getitem__)
    assert (found["LIMIT"], found["A.f.k"], found["A.f.m"]) == ("5", "3", "None")
    assert found["TEXT"].startswith("sha256:")
    assert found["A.f"].startswith("sha256:")
    assert tomllib.loads(as_toml("o/n", "c" * 40, {"b.py": found}))["b.py"] == found
    with pytest.raises(ValueError, match="no keys are read"):
        facts_of("README.md", files.__getitem__)


def test_facts_are_as_their_repository_is_pinned() -> None:
    for repository in cited():
        facts = code_facts.facts(repository)
        assert (facts["repository"], len(facts["commit"])) == (repository, 40)
        assert file_of(repository).stat().st_size < 200_000
