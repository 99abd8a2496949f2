"""Rooms, furniture and objects of the built-in games."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RoomKind:
    """A kind of room and the furniture that may stand in it."""

    name: str
    """Name of the room in the first observation."""
    essentials: tuple[str, ...]
    """Furniture that every room of the kind has."""
    extras: dict[str, int]
    """Furniture that there may be besides, and how many at most, essentials included."""


@dataclass(frozen=True, slots=True)
class Thing:
    """A kind of object, and its possible uses."""

    name: str
    rooms: frozenset[str]
    """Kinds of room it is found in."""
    homes: frozenset[str]
    """Kinds of furniture that can hold it."""
    abilities: frozenset[str]
    """Abilities, some of take, clean, heat, cool, slice, use."""


OPENABLE = frozenset({"cabinet", "drawer", "fridge", "microwave", "safe"})
"""Furniture with a door; it is closed at first."""

TOOLS = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
"""Furniture that an object is cleaned, heated or cooled with."""

LAMP = "desklamp"

NEIGHBOURS = {
    "sinkbasin": ("countertop",),
    "handtowelholder": ("sinkbasin",),
    "toiletpaperhanger": ("toilet",),
    "microwave": ("countertop",),
    "coffeemachine": ("countertop",),
    "toaster": ("countertop",),
    "cabinet": ("cabinet", "countertop"),
    "sidetable": ("armchair", "bed", "sofa"),
    "shelf": ("shelf", "desk"),
    "drawer": ("drawer", "countertop", "desk", "dresser", "sidetable", "tvstand"),
}
"""Furniture that may share the location of other furniture, which is placed before it."""

ROOMS = {
    "kitchen": RoomKind(
        "kitchen",
        ("fridge", "microwave", "sinkbasin", "countertop", "cabinet"),
        {
            "cabinet": 7, "coffeemachine": 1, "countertop": 3, "diningtable": 1, "drawer": 6,
            "garbagecan": 1, "shelf": 3, "sidetable": 1, "stoveburner": 4, "toaster": 1,
        },
    ),
    "bathroom": RoomKind(
        "bathroom",
        ("sinkbasin", "toilet", "countertop", "cabinet"),
        {
            "bathtubbasin": 1, "cabinet": 5, "cart": 1, "countertop": 2, "drawer": 5, "garbagecan": 1,
            "handtowelholder": 2, "shelf": 3, "sidetable": 1, "toiletpaperhanger": 1, "towelholder": 2,
        },
    ),
    "bedroom": RoomKind(
        "bedroom",
        ("bed", "desk", "drawer", "sidetable"),
        {
            "armchair": 1, "drawer": 6, "dresser": 2, "garbagecan": 1, "laundryhamper": 1, "safe": 1,
            "shelf": 5, "sidetable": 2,
        },
    ),
    "livingroom": RoomKind(
        "living room",
        ("sofa", "coffeetable", "drawer", "sidetable"),
        {
            "armchair": 2, "cabinet": 3, "diningtable": 1, "drawer": 5, "dresser": 1, "garbagecan": 1,
            "ottoman": 1, "safe": 1, "shelf": 4, "sidetable": 3, "tvstand": 1,
        },
    ),
}  # fmt: skip
"""Kinds of room by short name."""

_TOPS = "cart coffeetable countertop desk diningtable dresser shelf sidetable tvstand "
_SEATS = "armchair ottoman sofa "
_STOVE = "stoveburner "
_COLD = "fridge "
_WARM = "microwave "
_STORE = "cabinet drawer "
_SINK = "sinkbasin "
_BIN = "garbagecan "

_KITCHEN = {
    "apple": (
        "take clean heat cool slice",
        "countertop diningtable sidetable " + _COLD + _WARM + _SINK + _BIN,
    ),
    "bowl": ("take clean cool", "countertop diningtable shelf sidetable cabinet " + _COLD + _SINK),
    "bread": ("take heat cool slice", "countertop diningtable sidetable " + _COLD + _WARM + _BIN),
    "butterknife": ("take clean", "countertop diningtable sidetable drawer " + _SINK),
    "cup": (
        "take clean heat cool",
        "countertop diningtable shelf sidetable cabinet " + _COLD + _WARM + _SINK,
    ),
    "dishsponge": ("take clean", "countertop diningtable shelf sidetable " + _STORE + _SINK + _BIN),
    "egg": ("take clean heat cool", "countertop diningtable sidetable " + _COLD + _WARM + _SINK + _BIN),
    "fork": ("take clean", "countertop diningtable sidetable drawer " + _SINK),
    "glassbottle": ("take", "countertop diningtable shelf sidetable cabinet " + _COLD + _BIN),
    "kettle": ("take clean", "countertop diningtable shelf sidetable cabinet " + _STOVE + _SINK),
    "knife": ("take clean", "countertop diningtable sidetable drawer " + _SINK),
    "ladle": ("take clean", "countertop diningtable sidetable " + _STORE + _SINK),
    "lettuce": ("take clean cool slice", "countertop diningtable sidetable " + _COLD + _SINK + _BIN),
    "mug": (
        "take clean heat cool",
        "coffeemachine countertop diningtable shelf sidetable cabinet " + _COLD + _WARM + _SINK,
    ),
    "pan": ("take clean cool", "countertop diningtable sidetable cabinet " + _STOVE + _COLD + _SINK),
    "papertowelroll": ("take", "countertop diningtable shelf sidetable " + _STORE + _BIN),
    "peppershaker": ("take", "countertop diningtable shelf sidetable " + _STORE),
    "plate": (
        "take clean heat cool",
        "countertop diningtable shelf sidetable cabinet " + _COLD + _WARM + _SINK,
    ),
    "pot": ("take clean cool", "countertop diningtable sidetable cabinet " + _STOVE + _COLD + _SINK),
    "potato": (
        "take clean heat cool slice",
        "countertop diningtable sidetable " + _COLD + _WARM + _SINK + _BIN,
    ),
    "saltshaker": ("take", "countertop diningtable shelf sidetable " + _STORE),
    "spatula": ("take clean", "countertop diningtable sidetable drawer " + _SINK),
    "spoon": ("take clean", "countertop diningtable sidetable drawer " + _SINK),
    "tomato": (
        "take clean heat cool slice",
        "countertop diningtable sidetable " + _COLD + _WARM + _SINK + _BIN,
    ),
    "winebottle": ("take cool", "countertop diningtable shelf sidetable cabinet " + _COLD + _BIN),
}

_BATHROOM = {
    "candle": ("take", "bathtubbasin cart countertop shelf sidetable toilet " + _STORE),
    "cloth": ("take clean", "bathtubbasin cart countertop shelf sidetable toilet " + _STORE + _SINK + _BIN),
    "handtowel": ("take", "handtowelholder countertop shelf"),
    "scrubbrush": ("take clean", "bathtubbasin countertop toilet cabinet " + _SINK),
    "soapbar": ("take clean", "bathtubbasin cart countertop shelf sidetable toilet " + _STORE + _SINK + _BIN),
    "soapbottle": ("take", "cart countertop shelf sidetable toilet " + _STORE + _BIN),
    "spraybottle": ("take", "cart countertop shelf sidetable toilet " + _STORE + _BIN),
    "tissuebox": ("take", "cart countertop shelf sidetable toilet " + _STORE + _BIN),
    "toiletpaper": ("take", "toiletpaperhanger cart countertop shelf sidetable toilet " + _STORE + _BIN),
    "towel": ("take", "towelholder bathtubbasin shelf"),
}

_BEDROOM = {
    "alarmclock": ("take", _TOPS),
    "baseballbat": ("take", "bed desk dresser sidetable armchair"),
    "basketball": ("take", "armchair bed desk dresser laundryhamper"),
    "cd": ("take", _TOPS + "drawer safe " + _BIN),
    "pencil": ("take", _TOPS + "bed drawer " + _BIN),
    "pen": ("take", _TOPS + "bed drawer " + _BIN),
    "shirt": ("take", "armchair bed dresser drawer laundryhamper"),
    "teddybear": ("take", _SEATS + "bed desk dresser shelf"),
}

_LIVING = {
    "box": ("take", _SEATS + _TOPS + "cabinet"),
    "houseplant": ("", _TOPS),
    "newspaper": ("take", _SEATS + _TOPS + _STORE + _BIN),
    "television": ("", "dresser tvstand"),
    "wateringcan": ("take", _TOPS + "cabinet"),
}

_BOTH = {
    "book": ("take", _SEATS + _TOPS + "bed " + _STORE),
    "cellphone": ("take", _SEATS + _TOPS + "bed safe drawer"),
    "creditcard": ("take", _SEATS + _TOPS + "bed safe drawer"),
    LAMP: ("use", "desk dresser shelf sidetable"),
    "keychain": ("take", _SEATS + _TOPS + "bed safe drawer"),
    "laptop": ("take", _SEATS + _TOPS + "bed"),
    "pillow": ("take", _SEATS + "bed"),
    "remotecontrol": ("take", _SEATS + _TOPS + "drawer"),
    "statue": ("take", _TOPS + "safe"),
    "vase": ("take", _TOPS + "cabinet safe"),
    "watch": ("take", _SEATS + _TOPS + "safe drawer"),
}


def _things() -> dict[str, Thing]:
    rooms = {
        ("kitchen",): _KITCHEN,
        ("bathroom",): _BATHROOM,
        ("bedroom",): _BEDROOM,
        ("livingroom",): _LIVING,
        ("bedroom", "livingroom"): _BOTH,
    }
    return {
        name: Thing(name, frozenset(where), frozenset(homes.split()), frozenset(abilities.split()))
        for where, table in rooms.items()
        for name, (abilities, homes) in table.items()
    }


THINGS = _things()
"""Kinds of object by name."""
