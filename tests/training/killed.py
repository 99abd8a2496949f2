"""Training runs that end by SIGKILL: `python -m tests.training.killed FOLDER`."""

import os
import signal
import sys
from pathlib import Path

from agentgym.inference.policy.policy import LanguageModelPolicy
from agentgym.training.run import start
from tests.training.test_loop import config

SETTINGS = {"iterations": 3, "checkpoint_every": 1, "evaluation__every": 0, "keep_rollouts": 1}
AHEAD = {"rollout__max_staleness": 1}
IN_FLIGHT = AHEAD | {"rollout__asynchronous": True, "rollout__updates_in_flight": True}

CASES = {
    "in a round": ({}, 40),
    "not ahead of updates": (AHEAD | {"rollout__overlap": False}, 100),
    "ahead of updates": (AHEAD, 100),
    "updates in flight": (IN_FLIGHT, 100),
}
"""Settings of a run, and the request at which it is killed."""


def settings(name):
    return config("grpo", **SETTINGS | CASES[name][0])


def ask_and_die(number):
    """Kill this process instead of asking for so many-th time."""
    plain, asked = LanguageModelPolicy.question, []

    def question(self, request):
        asked.append(request)
        if len(asked) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(self, request)

    LanguageModelPolicy.question = question


def main(folder):
    for name, (_, number) in CASES.items():
        child = os.fork()  # what it imports takes longer than its run
        if child == 0:
            ask_and_die(number)
            start(settings(name), folder / name, logs=["jsonl"])
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
            sys.exit(f"{name} ended by itself: {status}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
