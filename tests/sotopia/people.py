"""Characters, scenarios and conversations made up for tests."""

from agentgym.envs.sotopia.actions import SocialAction
from agentgym.envs.sotopia.scenarios import Character, Scenario

MARA = Character(
    id="A1",
    first_name="Mara",
    last_name="Quill",
    age=34,
    gender="Woman",
    pronouns="She/her",
    occupation="Lighthouse Keeper",
    public_info="Mara keeps bees & brews tea.",
    big_five="Openness - High",
    personality_and_values="Mara is patient.",
    decision_making_style="Intuitive",
    secret="mara-hides-a-map",
    mbti="INFP",
)
OTTO = Character(
    id="A2",
    first_name="Otto",
    last_name="Brand",
    age=58,
    gender="Man",
    pronouns="He/him",
    occupation="Tailor",
    public_info="Otto mends kites.",
    personality_and_values="Otto is stern.",
    secret="otto-owes-money",
)


def scenario(relationship=0, **changes):
    given = {
        "id": "S1",
        "text": 'Two people meet at a pier.<p viewer="environment"> only-the-judge-knows</p>',
        "goals": (
            "Sell the boat (<extra_info>mara-takes-40</extra_info>)",
            "Buy the boat <strategy_hint>otto-pays-60</strategy_hint>"
            "<clarification_hint>otto-has-cash</clarification_hint>",
        ),
        "characters": (MARA, OTTO),
    }
    return Scenario(relationship=relationship, **given | changes)


def say(text="Hello."):
    return SocialAction("speak", text)


def play(game, *actions):
    """Return the state after actions, each by whoever is to act."""
    state = game.initial()
    for action in actions:
        state = game.apply(state, game.to_act(state)[0], action)
    return state
