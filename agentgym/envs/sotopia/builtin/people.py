"""People: the characters of built-in scenarios, put together from lists."""

from __future__ import annotations

from agentgym.core.hashing import content_id
from agentgym.core.rng import KeyRng
from agentgym.envs.sotopia.scenarios import Character

_WOMEN = (
    "Ada", "Birgit", "Chiara", "Dunja", "Elif", "Farah", "Greta", "Hedda", "Imani", "Jolanta", "Kalina",
    "Leila", "Malin", "Nadia", "Oksana", "Paloma", "Rosalind", "Saskia", "Tamsin", "Ulrike", "Vesna",
    "Wilma", "Yara", "Zofia",
)  # fmt: skip
_MEN = (
    "Anselm", "Bojan", "Cormac", "Davit", "Emre", "Florian", "Gustav", "Hamid", "Ivo", "Jarek", "Kwame",
    "Lorenz", "Matteo", "Niels", "Otis", "Pavel", "Ruben", "Stellan", "Tariq", "Urs", "Viktor", "Wendel",
    "Yusuf", "Zoltan",
)  # fmt: skip
_FAMILIES = (
    "Abend", "Brandvold", "Castellan", "Dravik", "Ekholm", "Fontaine", "Grabner", "Halvorsen", "Ilves",
    "Jankovic", "Kestrel", "Lindqvist", "Marchetti", "Novacek", "Oduya", "Petrakis", "Quintero",
    "Rasmussen", "Sandoval", "Tiller", "Ulvestad", "Varga", "Westergaard", "Yilmaz", "Zeller",
)  # fmt: skip
_OCCUPATIONS = (
    "archivist", "baker", "beekeeper", "bookbinder", "bus driver", "carpenter", "chemist", "dentist",
    "electrician", "ferry pilot", "florist", "gardener", "geologist", "harbour clerk", "judge's clerk",
    "librarian", "locksmith", "midwife", "nurse", "optician", "plumber", "potter", "ranger", "roofer",
    "surveyor", "tailor", "teacher", "tram mechanic", "translator", "violin maker",
)  # fmt: skip
_PASTIMES = (
    "sings in a choir", "keeps two goats", "collects old maps", "swims in the lake all year",
    "mends bicycles", "plays chess by post", "paints shop signs", "grows tomatoes on the roof",
    "reads crime novels", "builds kites", "runs a reading circle", "bakes bread on Sundays",
    "walks other people's dogs", "repairs radios",
)  # fmt: skip
_TRAITS = (
    "openness to experience: high, patience: low", "conscientiousness: high, warmth: medium",
    "extraversion: low, calm: high", "agreeableness: high, caution: high", "extraversion: high, order: low",
    "openness to experience: low, persistence: high",
)  # fmt: skip
_VALUES = ("care", "fairness", "loyalty", "honesty", "freedom", "order")
_AIMS = ("security", "achievement", "independence", "benevolence", "stimulation", "tradition")
_MANNERS = (
    "weighs things slowly and likes to sleep on them", "makes up their mind at once and seldom goes back",
    "asks others before deciding", "follows rules of thumb", "lists what speaks for and against",
)  # fmt: skip

HIDDEN_THINGS = (
    "accordion", "barometer", "chandelier", "dulcimer", "easel", "flintlock", "gramophone", "harpsichord",
    "icebox", "jukebox", "kayak", "lantern", "mandolin", "necklace", "observatory", "periscope", "quilt",
    "rowboat", "sundial", "telescope", "unicycle", "vineyard", "windmill", "xylophone", "yacht", "zither",
)  # fmt: skip
"""Things that secrets are about: words that occur nowhere else in a built-in scenario."""

HIDDEN_PLACES = (
    "Arvenholm", "Brackwater", "Cindermoor", "Dunmarrow", "Elderfen", "Frostwick", "Gullhaven",
    "Hollowmere", "Ironbeck", "Juniper Falls", "Kingsloch", "Larkspur Bay", "Mossgate", "Netherby",
    "Oxcombe", "Pinecrest", "Quarrydale", "Ravenstow", "Saltmarch", "Thornbury Vale",
)  # fmt: skip
"""Places that secrets are about: made-up names."""

_SECRETS = (
    "has spent all savings on a {thing} that stands in {place}",
    "lost a borrowed {thing} in {place} and never told its owner",
    "won a {thing} in {place} by cheating",
    "inherited a {thing} in {place} and keeps it from the family",
    "broke into a house in {place} once, for a {thing}",
)


def draw_people(rng: KeyRng) -> tuple[tuple[Character, Character], tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return two people of different names, and the words that give away their secrets."""
    first, words = _person(rng, ())
    second, more = _person(rng, (first.first_name, first.last_name, *words))
    return (first, second), (words, more)


def _person(rng: KeyRng, taken: tuple[str, ...]) -> tuple[Character, tuple[str, ...]]:
    """Return a person with none of the names and secret words taken."""
    woman = rng.below(2) == 0
    name = _other(rng, _WOMEN if woman else _MEN, taken)
    family = _other(rng, _FAMILIES, taken)
    thing = _other(rng, HIDDEN_THINGS, taken)
    place = _other(rng, tuple(one.lower() for one in HIDDEN_PLACES), taken)
    proper = next(one for one in HIDDEN_PLACES if one.lower() == place)
    pastime, values, aims = rng.pick(_PASTIMES), rng.pick(_VALUES), rng.pick(_AIMS)
    pronoun = "She" if woman else "He"
    fields = {
        "first_name": name,
        "last_name": family,
        "age": rng.between(21, 74),
        "gender": "Woman" if woman else "Man",
        "pronouns": "She/her" if woman else "He/him",
        "occupation": rng.pick(_OCCUPATIONS),
        "public_info": f"{pronoun} {pastime}.",
        "big_five": rng.pick(_TRAITS),
        "moral_values": (values,),
        "schwartz_values": (aims,),
        "personality_and_values": f"{name} cares most about {values} and {aims}.",
        "decision_making_style": f"{name} {rng.pick(_MANNERS)}.",
        "secret": f"{name} {rng.pick(_SECRETS).format(thing=thing, place=proper)}.",
    }
    return Character(content_id(fields), **fields), (thing, place)  # type: ignore[arg-type]  # by name


def _other(rng: KeyRng, names: tuple[str, ...], taken: tuple[str, ...]) -> str:
    while True:
        name = rng.pick(names)
        if name not in taken:
            return name
