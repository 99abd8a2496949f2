"""Phrases of scripted partners, by temperament and occasion."""

from __future__ import annotations

from collections.abc import Mapping

CONCERNS = ("cost", "safety", "fairness", "tradition", "comfort", "speed")
"""Concerns by which people can be convinced."""

GESTURES = (
    "shakes the head slowly",
    "shrugs and waits",
    "looks at the papers on the table",
    "folds both arms",
)

_FRANK_CONCERN = (
    "What I look at before anything else is {concern}.",
    "I will be open with you: for me it comes down to {concern}.",
)

_FRANK_ANSWER = (
    "I will be open with you: I like {best} best, and I could live with {least}.",
    "To be plain, {best} would suit me most, but {least} is something I could still take.",
)

SPEECH: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "fair": {
        "opening": (
            "Thank you for making time. Tell me what you have in mind.",
            "I am listening, but as it stands I cannot offer you anything.",
        ),
        "insisting": (
            "I think {deal} is reasonable. If you move a little, so will I.",
            "My offer stands: {deal}. What would you change about it?",
        ),
        "prying": (
            "I would still like to know what you are keeping from me, but I will not press you.",
            "You can tell me what it is about whenever you feel ready.",
        ),
        "concern": _FRANK_CONCERN,
        "answer": _FRANK_ANSWER,
        "refusal": ("I am sorry, {deal} leaves me worse off than no agreement.",),
    },
    "generous": {
        "opening": (
            "How good to see you. I am sure we will find something that suits us both.",
            "I would like to say yes. Give me a reason.",
        ),
        "insisting": (
            "Whatever makes you happy within reason. {deal} is fine with me, for example.",
            "Shall we say {deal}? I do not mind giving a little.",
        ),
        "prying": ("I am curious, I admit, but keep it to yourself if you must.",),
        "concern": _FRANK_CONCERN,
        "answer": _FRANK_ANSWER,
        "refusal": ("I would love to, but {deal} is more than I can do.",),
    },
    "stubborn": {
        "opening": (
            "I have little time, so let us hear what you want.",
            "So far I have heard nothing worth my while.",
        ),
        "insisting": (
            "I have made my offer: {deal}. I see no reason to move.",
            "It is {deal} as far as I am concerned. Take it.",
        ),
        "prying": (
            "You are hiding something, and I want to hear it. Out with it.",
            "I am not leaving this alone. What is it?",
        ),
        "concern": ("I am not here to explain myself. Convince me or do not.",),
        "answer": ("I have said all I have to say about what I want.",),
        "refusal": ("No. {deal} is not worth talking about.",),
    },
    "deceptive": {
        "opening": (
            "You should know that others have made me very good offers already.",
            "Everybody tells me not to deal with you at all. Prove them wrong.",
        ),
        "insisting": (
            "Believe me, I lose on {deal} as it is. Nobody will give you more.",
            "Somebody else would take {deal} before the hour is out.",
        ),
        "prying": (
            "I know most of it anyway, so you may as well say it out loud and be done.",
            "Your friends have told me already. I only want to hear it from you.",
        ),
        "concern": ("Between the two of us, all I ever care about is {concern}.",),
        "answer": ("Honestly, anything but {best} would ruin me.",),
        "refusal": ("You insult me with {deal}. Others have offered far more.",),
    },
    "silent": {},
}
