"""Marks of tests by what they need: set here, by what a file imports and by lists.

Imports are read from the lines of a file and of the modules of this checkout that it imports, so that a new
test of the trainer is marked `torch` by itself.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from itertools import product
from pathlib import Path

from _pytest.mark.expression import Expression

ROOT = Path(__file__).resolve().parents[1]
CHECKOUT = ("agentgym", "benchmarks", "examples", "tests", "tools")

PACKAGES = {
    "torch": (
        "torch",
        "transformers",
        "safetensors",
        "tokenizers",
        "peft",
        "huggingface_hub",
        "sentence_transformers",
    ),
    "jinja2": ("jinja2",),
    "endpoint": ("openai", "httpx2", "aiolimiter", "anthropic"),
    "serve": ("fastapi", "uvicorn", "websockets"),
    "retrieval": ("numba", "faiss"),
    "spacy": ("spacy",),
    "pettingzoo": ("pettingzoo",),
    "parquet": ("pyarrow",),
    "ray": ("ray",),
    "inspect": ("inspect_ai",),
    "log": ("tensorboard", "wandb"),
    "vllm": ("vllm",),
    "docs": ("furo",),
    "video": ("imageio_ffmpeg",),
}
"""Packages by the mark of the tests that need them; a mark is there where all of its packages are."""

LISTED: dict[str, tuple[str, ...]] = {
    # what code under test imports inside functions
    "torch": (
        "agentgym/inference",
        "agentgym/training",
        "tests/cli/test_hints.py::test_a_training_run_that_is_not_there",
        "tests/cli/test_index.py::test_damage_is_found",
        "tests/cli/test_index.py::test_the_command_says_what_is_wrong",
        "tests/cli/test_train_bc.py",
        "tests/papersearch/test_env.py::test_wrong_options_are_one_line",
        "tests/papersearch/test_selectors.py::test_a_model_plays_along_in_every_form",
        "tests/papersearch/test_selectors.py::test_a_model_s_answer_does_not_depend_on_what_is_asked_beside",
        "tests/papersearch/test_selectors.py::test_a_model_s_score_is_the_probability_of_true",
        "tests/papersearch/test_selectors.py::test_a_model_that_cannot_be_loaded_is_one_line",
        "tests/papersearch/test_selectors.py::test_a_prompt_has_its_three_slots",
        "tests/papersearch/test_selectors.py::test_a_prompt_of_ones_own_comes_by_file",
        "tests/papersearch/test_selectors.py::test_a_prompt_s_file_that_is_no_good_is_one_line",
        "tests/papersearch/test_selectors.py::test_a_search_by_vectors",
        "tests/papersearch/test_selectors.py::test_batched_scores_are_those_of_one_prompt_at_a_time",
        "tests/papersearch/test_selectors.py::test_other_weights_are_another_selector",
        "tests/papersearch/test_selectors.py::test_padding_has_no_weight_and_no_position",
        "tests/recipes/test_code_facts.py::test_facts_of_yaml_are_its_leaves",
        "tests/recipes/test_lines.py",
        "tests/retrieval/test_encoders.py",
        "tests/test_public_names.py",
        "tests/training",
    ),
    "jinja2": (
        "tests/cli/test_credit.py::test_a_page_of_an_episode_has_its_regret",
        "tests/cli/test_credit.py::test_a_site_has_regret_where_asked",
        "tests/evaluation/test_hostile_files.py::test_a_board_and_a_site_end_whole_beside_them",
        "tests/evaluation/test_hostile_files.py::test_a_copy_without_episodes_that_can_be_read_stops_no_site",
        "tests/evaluation/test_hostile_files.py::"
        "test_where_runs_lie_does_not_decide_whose_page_has_the_name_of_a_request",
        "tests/evaluation/test_strangers.py::test_the_site_plays_runs_within_limits",
        "tests/site",
    ),
    "endpoint": (
        "tests/evaluation/test_endpoint_runs.py",
        "tests/evaluation/test_judges.py",
        "tests/evaluation/test_sotopia_runs.py",
        "tests/reading/test_families.py",
    ),
    "serve": (
        "tests/cli/test_index.py::test_a_server_is_an_engine",
        "tests/retrieval/test_remote.py",
        "tests/serving/test_env_server.py",
        "tests/serving/test_remote_env.py",
        "tests/serving/test_remote_episodes.py",
        "tests/serving/test_remote_strangers.py",
        "tests/serving/test_retrieval.py",
    ),
    "spacy": (
        "tests/webshop/test_parity.py::test_nothing_differs_from_the_recordings",
        "tests/webshop/test_taggers.py",
    ),
    "retrieval": ("tests/retrieval/test_exact.py::test_another_encoder", "tests/retrieval/test_kernels.py"),
    # the checkout itself: its imports, packages, pages and tools
    "house": (
        "tests/algos/test_adding.py",
        "tests/examples/test_commands.py",
        "tests/test_contributing.py",
        "tests/test_data_text.py",
        "tests/test_foreign_project.py",
        "tests/test_fragile.py",
        "tests/test_imports.py",
        "tests/test_layers.py",
        "tests/test_makefile.py",
        "tests/test_needs.py",
        "tests/test_one_folder.py",
        "tests/test_packaging.py",
        "tests/test_ratchet.py",
        "tests/test_resources.py",
        "tests/test_videos.py",
    ),
    # whole runs, kills and processes, which take seconds each
    "long": (
        "tests/bridges/test_ray_vector.py",
        "tests/evaluation/test_bench.py::test_kill_loses_no_finished_episode",
        "tests/evaluation/test_endpoint_runs.py::test_killed_at_random_points_and_resumed_the_result_is_the_same",
        "tests/evaluation/test_environments.py::test_the_official_suites_are_run_replayed_and_ranked",
        "tests/evaluation/test_model_check.py",
        "tests/evaluation/test_mutations.py::test_no_mutation_of_a_sample_survives",
        "tests/recipes/test_models.py::test_every_run_fits_one_and_eight_gpus_or_does_with_its_update_in_main_memory",
        "tests/recipes/test_variants.py::test_a_variant_of_a_recipe_trains",
        "tests/serving/test_browser.py::test_a_visit",
        "tests/serving/test_gateway_engine.py",
        "tests/serving/test_gateway_tokens.py::test_prompts_begin_with_what_was_sampled",
        "tests/site/test_hostile.py::test_a_hostile_site_runs_nothing_and_asks_nobody",
        "tests/site/test_pages.py",
        "tests/sokoban/test_solver.py::test_boxoban_is_solved_quickly",
        "tests/test_registry.py::test_episodes_are_the_same_in_every_process",
        "tests/test_snapshots.py::test_bytes_travel_between_processes",
        "tests/test_unknown_tasks.py::test_webshop_s_tables_are_current",
        "tests/training/test_append_ids.py::test_recorded_tokens_are_the_sampled_ones",
        "tests/training/test_async_training.py",
        "tests/training/test_best.py::test_a_resumed_run_knows_the_best_and_stops_where_the_whole_one_does",
        "tests/training/test_cloning.py::test_the_rule_based_agent_is_a_teacher_too",
        "tests/training/test_curriculum.py::test_a_resumed_run_goes_on_in_its_stage",
        "tests/training/test_distributed.py",
        "tests/training/test_engine_contract.py",
        "tests/training/test_gateway_training.py",
        "tests/training/test_hub.py::test_the_command_line_honours_the_hub_s_variables",
        "tests/training/test_learning.py",
        "tests/training/test_loop.py::test_a_run_that_bypasses_old_log_probs_saves_a_pass_and_ends_at_the_same_weights",
        "tests/training/test_loop.py::test_a_seed_decides_a_run_and_a_resumed_one_is_the_same",
        "tests/training/test_machine_settings.py::test_a_model_of_pictures_is_planned",
        "tests/training/test_mix.py::test_a_killed_run_goes_on_to_the_same_bits",
        "tests/training/test_nodes.py",
        "tests/training/test_pictures.py",
        "tests/training/test_reward_model.py::test_a_resumed_run_is_the_same_in_both_models",
        "tests/training/test_rollout_journal.py",
        "tests/training/test_serving.py",
        "tests/training/test_sotopia.py::test_two_iterations_are_finite_and_resumed",
        "tests/webshop/test_builtin.py::test_a_split_goes_on_for_as_long_as_one_likes",
        "tests/webshop/test_builtin.py::test_brute_force_finds_the_purchases_that_are_known_and_no_others",
        "tests/webshop/test_builtin.py::test_the_smallest_shop_has_enough_to_wish_for",
        "tests/webshop/test_generators.py",
        "tests/webshop/test_parity.py::test_a_difference_is_found",
        "tests/webshop/test_scale.py",
    ),
    # where the package meets Gymnasium
    "contract": (
        "docs/gymnasium.md",
        "tests/sokoban/test_array_env.py",
        "tests/sokoban/test_vector.py",
        "tests/test_checking.py",
        "tests/test_env.py",
        "tests/test_foreign_project.py",
        "tests/test_make.py",
        "tests/test_registry.py",
        "tests/test_rendering.py",
        "tests/test_spaces.py",
        "tests/test_vector.py",
        "tests/test_wrappers.py",
    ),
}
"""Folders, files and tests by further marks."""

_IMPORT = r"(?:from (?P<module>[\w.]+) import (?:\((?P<lines>[^)]*)\)|(?P<line>.*))|import (?P<modules>.*))$"
_LINE = re.compile("^" + _IMPORT, re.MULTILINE)
_EXAMPLE = re.compile(r"^ *>>> " + _IMPORT, re.MULTILINE)


def marks(path: Path, test: str = "") -> frozenset[str]:
    """Return the marks of a file's tests, by what it imports and where it is listed; or those of one test."""
    name = path.relative_to(ROOT).as_posix()
    names = {name, f"{name}::{test}", *(parent.as_posix() for parent in Path(name).parents)}
    listed = {mark for mark, members in LISTED.items() if not names.isdisjoint(members)}
    return frozenset(listed | _by_imports(path))


def may_have(path: Path, expression: str) -> bool:
    """Return whether a file may have a test that an expression of ``-m`` chooses, by what is set here."""
    names = sorted(set(re.findall(r"\w+", expression)) - {"and", "or", "not"})
    if not names:
        return True
    sure = marks(path)
    open_ = [name for name in names if name not in sure and _may_be_on_a_test(name, path)]
    known = {name: name in sure for name in names}
    chosen = Expression.compile(expression)
    cases = (
        known | dict(zip(open_, case, strict=True)) for case in product((False, True), repeat=len(open_))
    )
    return any(chosen.evaluate(lambda name, case=case, **_: case[name]) for case in cases)


def _may_be_on_a_test(mark: str, path: Path) -> bool:
    """Return whether a test of a file or folder may have a mark that not all of its tests have."""
    if path.is_dir() or (mark not in PACKAGES and mark not in LISTED):
        return True
    start = f"{path.relative_to(ROOT).as_posix()}::"
    listed = any(each.startswith(start) for each in LISTED.get(mark, ()))
    return listed or f"mark.{mark}" in path.read_text(encoding="utf-8")


@cache
def _by_imports(path: Path) -> frozenset[str]:
    needed = set(imported(path)) if path.suffix == ".py" else set()
    if path.suffix == ".md" or (path.suffix == ".py" and path.is_relative_to(ROOT / "agentgym")):
        outside, files = _named(path.read_text(encoding="utf-8"), _EXAMPLE)
        needed |= outside.union(*map(imported, files))
    return frozenset(mark for mark, packages in PACKAGES.items() if not needed.isdisjoint(packages))


def absent() -> frozenset[str]:
    """Return the marks of extras that are not installed."""
    return frozenset(mark for mark, packages in PACKAGES.items() if not all(map(find_spec, packages)))


@cache
def imported(path: Path) -> frozenset[str]:
    """Return the packages from outside that importing a file brings, by their top-level names."""
    seen, found = {path}, set[str]()
    waiting = [path]
    while waiting:
        outside, files = _imports(waiting.pop())
        found |= outside
        waiting += files - seen
        seen |= files
    return frozenset(found)


@cache
def _imports(path: Path) -> tuple[set[str], set[Path]]:
    return _named(path.read_text(encoding="utf-8"), _LINE)


def _named(source: str, lines: re.Pattern[str]) -> tuple[set[str], set[Path]]:
    """Return the packages from outside and the files of the checkout that import lines name."""
    outside, files = set(), set()
    for module in _modules(lines, source):
        top, *_ = parts = module.split(".")
        if top in CHECKOUT:
            found = [_file(".".join(parts[:end])) for end in range(1, len(parts) + 1)]
            files |= {file for file in found if file is not None}
        else:
            outside.add(top)
    return outside, files


def _modules(lines: re.Pattern[str], source: str) -> set[str]:
    """Return the modules that import lines name; `from a import b` may name the module a.b."""
    found = set()
    for line in lines.finditer(source):
        names = re.sub(r"#.*", "", line["modules"] or line["lines"] or line["line"]).split(",")
        names = [name.split(" as ")[0].strip() for name in names if name.strip()]
        found |= (
            {line["module"], *(f"{line['module']}.{name}" for name in names)} if line["module"] else {*names}
        )
    return found


@cache
def _file(module: str) -> Path | None:
    path = ROOT / module.replace(".", "/")
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
