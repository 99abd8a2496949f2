"""Episodes of the environment for tests."""

from agentgym.envs.sotopia.env import SotopiaEnv


def started(side=0, **options):
    """Return an environment at the beginning of its first task for a side."""
    env = SotopiaEnv(**{"split": "test", **options})
    env.reset(seed=0, options={"task": env.tasks[side].id})
    return env


def played(env, *actions):
    """Play actions; return what the last step returned."""
    for action in actions:
        step = env.step(action)
    return step
