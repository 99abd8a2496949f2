"""What stands in for a checkout of verl-agent: managers that only pass on what they get."""

import importlib
import sys
from types import SimpleNamespace

from agentgym.bridges.verl_agent import replace_workers

NAMES = {"alfworld": "alfworld/AlfredTWEnv", "webshop": "Webshop", "sokoban": "Sokoban", "search": "search"}

MANAGERS = """
from functools import partial
class Manager:
    def __init__(self, envs, projection_f, config):
        self.envs, self.projection_f, self.config = envs, projection_f, config
    def reset(self, kwargs):
        asked = {"kwargs": kwargs} if "search" in self.config.env.env_name else {}
        texts, *_, infos = self.envs.reset(**asked)
        return {"text": texts, "image": None, "anchor": list(texts)}, infos
    def step(self, text_actions):
        actions, valids = self.projection_f(text_actions)
        texts, *_, rewards, dones, infos = self.envs.step(actions)
        return {"text": texts, "image": None, "anchor": list(texts)}, rewards, dones, infos
    def close(self):
        self.envs.close()
class AlfWorldEnvironmentManager(Manager): pass
class WebshopEnvironmentManager(Manager): pass
class SokobanEnvironmentManager(Manager): pass
class SearchEnvironmentManager(Manager): pass
def make_envs(config):
    env, data, group = config.env, config.data, max(config.env.rollout.n, 1)
    if "alfworld" in env.env_name:
        from agent_system.environments.env_package.alfworld import build_alfworld_envs, alfworld_projection
        given, seed = {"env_kwargs": {"eval_dataset": env.alfworld.eval_dataset}}, env.seed
        built = [build_alfworld_envs("-", seed, data.train_batch_size, group, is_train=True, **given)]
        built += [build_alfworld_envs("-", seed + 1000, data.val_batch_size, 1, is_train=False, **given)]
        kind, projection_f = AlfWorldEnvironmentManager, alfworld_projection
    elif "Sokoban" in env.env_name:
        from agent_system.environments.env_package.sokoban import build_sokoban_envs, sokoban_projection
        rooms = {"dim_room": env.sokoban.dim_room, "num_boxes": env.sokoban.num_boxes}
        given = {"mode": env.sokoban.mode, "env_kwargs": {**rooms, "max_steps": env.max_steps}}
        built = [build_sokoban_envs(env.seed, data.train_batch_size, group, is_train=True, **given)]
        built += [build_sokoban_envs(env.seed + 1000, data.val_batch_size, 1, is_train=False, **given)]
        kind, projection_f = SokobanEnvironmentManager, sokoban_projection
    else:
        train = {"seed": env.seed, "env_num": data.train_batch_size, "group_n": group, "is_train": True}
        valid = {"seed": env.seed + 1000, "env_num": data.val_batch_size, "group_n": 1, "is_train": False}
        if "search" in env.env_name:
            from agent_system.environments.env_package.search import build_search_envs as build
            from agent_system.environments.env_package.search import search_projection as projection_f
            kind, given = SearchEnvironmentManager, {"env_config": env}
        else:
            from agent_system.environments.env_package.webshop import build_webshop_envs as build
            from agent_system.environments.env_package.webshop import webshop_projection as projection_f
            size = "_1000" if env.webshop.use_small else ""
            files = {"file_path": f"items_shuffle{size}.json", "human_goals": env.webshop.human_goals}
            kind, given = WebshopEnvironmentManager, {"env_kwargs": files}
        built = [build(**train, **given), build(**valid, **given)]
    return tuple(kind(envs, partial(projection_f), config) for envs in built)
"""


def write_checkout(folder):
    """Write the modules of a checkout; a suite's own package cannot be imported."""
    package = folder / "agent_system" / "environments"
    for suite in NAMES:
        path = package / "env_package" / suite / "projection.py"
        path.parent.mkdir(parents=True)
        path.with_name("__init__.py").write_text("raise AssertionError('workers of its own')\n")
        path.write_text(
            f"def {suite}_projection(actions, *offered):\n    return list(actions), [1] * len(actions)\n"
        )
    (package / "env_manager.py").write_text(MANAGERS)
    (package / "__init__.py").write_text(
        "from agent_system.environments.env_manager import make_envs as make_envs\n"
    )


def standing_in(folder, monkeypatch):
    """Write the modules, let them be imported for a while, and yield their folder."""
    write_checkout(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    importlib.invalidate_caches()
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] in ("agent_system", "recipe")]:
        del sys.modules[name]


def make_envs(given, module="agent_system.environments"):
    """Return the managers of the checkout, over our environments."""
    replace_workers()
    return importlib.import_module(f"{module}.env_manager").make_envs(given)


def config(suite, tasks=2, group=2, validation=3, mode="tiny_rgb_array", **options):
    env = SimpleNamespace(
        env_name=NAMES.get(suite, suite),
        seed=0,
        max_steps=15,
        rollout=SimpleNamespace(n=group),
        alfworld=SimpleNamespace(eval_dataset="eval_in_distribution"),
        webshop=SimpleNamespace(use_small=True, human_goals=False),
        sokoban=SimpleNamespace(dim_room=[6, 6], num_boxes=1, search_depth=30, mode=mode),
        search=SimpleNamespace(search_url="http://127.0.0.1:9/retrieve", topk=3, timeout=60),
        agentgym=options,
    )
    return SimpleNamespace(env=env, data=SimpleNamespace(train_batch_size=tasks, val_batch_size=validation))
