"""Models behind no endpoint: what partners and judges ask, answered by a function."""

import json
from concurrent.futures import Future

from agentgym.endpoint.chat import ChatReply
from agentgym.endpoint.spec import EndpointSpec
from agentgym.envs.sotopia.judges import JudgeOptions, ModelJudge
from agentgym.envs.sotopia.modelcalls import ModelPart
from agentgym.envs.sotopia.partners import ModelPartner, PartnerOptions
from agentgym.envs.sotopia.ratings import DIMENSIONS

SPEC = EndpointSpec("http://127.0.0.1:9/v1", "small")


class Model:
    """Answers each request by a function of it; an exception is raised in the future."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []

    def __call__(self, request):
        self.requests.append(request)
        future = Future()
        said = self.answer(request)
        if isinstance(said, BaseException):
            future.set_exception(said)
        else:
            future.set_result(ChatReply(said))
        return future

    @property
    def prompts(self):
        """The first message of each request."""
        return [request.messages[0].text for request in self.requests]


def in_turn(*answers):
    """Return a function that gives one answer after another, the last for ever."""
    left = list(answers)
    return lambda request: left.pop(0) if len(left) > 1 else left[0]


def partner(model, detail="default", **options):
    return ModelPartner(ModelPart(SPEC, model), PartnerOptions(**options), detail)


def judge(model, **options):
    return ModelJudge(ModelPart(SPEC, model), JudgeOptions(**options))


def reply(goal=7, **scores):
    """Return what a judge answers, with the same scores for both sides."""
    given = (
        {name: max(low, min(high, 1)) for name, (low, high) in DIMENSIONS.items()} | {"goal": goal} | scores
    )
    side = {name: {"reason": f"because of {name}", "score": score} for name, score in given.items()}
    return json.dumps({"first": side, "second": side})


def broken(**changes):
    """Return a judge's answer with parts changed, or left out where the change is None."""
    record = json.loads(reply())
    for path, value in changes.items():
        side, _, rest = path.partition("__")
        name, _, key = rest.partition("__")
        if value is None:
            del record[side][name]
        elif key:
            record[side][name][key] = value
        else:
            record[side][name] = value
    return json.dumps(record)
