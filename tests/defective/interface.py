"""Defects of what is declared, and of options, rendering and oracle."""

from types import MappingProxyType

from gymnasium import spaces

from agentgym import UsageError
from agentgym.checking import (
    interface,
)
from agentgym.core.tasks import ListTaskSet, Task
from agentgym.core.types import Completion
from tests.corridor import CorridorEnv
from tests.defective import breaks


@breaks(interface.check_declarations, "`suite` must be a name")
class NoSuite(CorridorEnv):
    suite = ""


@breaks(interface.check_declarations, "`state_schema` must be an int")
class SchemaText(CorridorEnv):
    state_schema = "1"


@breaks(interface.check_declarations, "`action_kind` must be")
class UnknownKind(CorridorEnv):
    action_kind = "free"


@breaks(interface.check_declarations, "declare 'render_fps'")
class NoFramesPerSecond(CorridorEnv):
    metadata = MappingProxyType({"render_modes": ["ansi"]})


@breaks(interface.check_rendering, "offer 'ansi'")
class NoAnsi(CorridorEnv):
    metadata = MappingProxyType({"render_modes": [], "render_fps": 1})


@breaks(interface.check_rendering, "'ansi' must render a string")
class RendersNothing(CorridorEnv):
    def render(self):
        return None


@breaks(interface.check_rendering, "rendering changes the episode")
class RenderingPlays(CorridorEnv):
    def render(self):
        self._cell += 1
        return "moved"


@breaks(interface.check_declarations, "action space must contain every string")
class NarrowActions(CorridorEnv):
    def __init__(self, **options):
        super().__init__(**options)
        self.action_space = spaces.Text(3)


@breaks(interface.check_spec_tells_the_step_limit, "must be max_steps=7, is None")
class OwnSpec(CorridorEnv):
    spec = None


class OwnTasks(CorridorEnv):
    def __init__(self, **options):
        super().__init__(**options)
        self.tasks = self.make_tasks(self.tasks)


@breaks(interface.check_tasks, "manifest")
class UnpinnedTasks(OwnTasks):
    def make_tasks(self, tasks):
        tasks.manifest = {"made": id(tasks)}
        return tasks


@breaks(interface.check_tasks, "must be unique")
class RepeatedIds(OwnTasks):
    def make_tasks(self, tasks):
        tasks._tasks += tasks._tasks[:1]
        return tasks


@breaks(interface.check_tasks, "32 hex digits, -n if repeated")
class FreeIds(OwnTasks):
    def make_tasks(self, tasks):
        return ListTaskSet("train", [Task("one", 1, "first")], dataset="builtin", suite="corridor")


@breaks(interface.check_splits_are_disjoint, "is in split 'test' and in split 'train'")
class OverlappingSplits(CorridorEnv):
    def __init__(self, *, split="train", **options):
        super().__init__(split="train" if split == "test" else split, **options)


@breaks(interface.check_bad_options, "an unknown task must raise UsageError, raised KeyError")
class UnknownTaskIsKeyError(OwnTasks):
    def make_tasks(self, tasks):
        class Strict(type(tasks)):
            def find(self, key):
                return self._tasks[self._by_key[key]]

        tasks.__class__ = Strict
        return tasks


@breaks(interface.check_bad_options, "an unknown reset option must raise UsageError, raised nothing")
class AnyOption(CorridorEnv):
    def reset(self, *, seed=None, options=None):
        known = {key: value for key, value in (options or {}).items() if key == "task"}
        return super().reset(seed=seed, options=known)


@breaks(interface.check_bad_options, "split='no such value' must raise UsageError, raised nothing")
class AnySplit(CorridorEnv):
    def __init__(self, *, split="train", **options):
        super().__init__(split="test" if split == "test" else "train", **options)


@breaks(interface.check_step_limit_is_an_option, "message of one line")
class LongComplaint(CorridorEnv):
    def __init__(self, *, max_steps=None, **options):
        if max_steps == 0:
            raise UsageError("no steps\nat all")
        super().__init__(max_steps=max_steps, **options)


@breaks(interface.check_step_limit_is_an_option, "max_steps=2")
class OwnLimit(CorridorEnv):
    def __init__(self, *, max_steps=None, **options):
        super().__init__(max_steps=None if max_steps == 2 else max_steps, **options)


@breaks(interface.check_oracle_wins, "wins none of the first")
class LosingOracle(CorridorEnv):
    def oracle(self):
        class Falls:
            def act(self, requests):
                return [Completion("fall") for _ in requests]

        return Falls()


@breaks(
    interface.check_nothing_answers_before_reset, r"admissible_actions\(\) before the first reset must raise"
)
class AnswersBeforeReset(CorridorEnv):
    def admissible_actions(self):
        return super().admissible_actions() if self._task else ()
