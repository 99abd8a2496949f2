"""Phrases of the built-in world's passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Phrase(NamedTuple):
    """A sentence of a kind of passage, in several wordings."""

    wordings: Sequence[str]
    tells: tuple[str, ...] = ()
    """Relations that it tells; it is left out where one of them is missing."""


PHRASES: Mapping[str, Sequence[Phrase]] = {
    "country": (
        Phrase(
            (
                "{name}{also} is a country between two mountain ranges.",
                "{name}{also} is a country on a northern coast.",
                "{name}{also} is a country in a wide river plain.",
                "{name}{also} is a country on an inland sea.",
            )
        ),
        Phrase(("The capital of {name} is {capital}.", "{capital} is its capital."), ("capital",)),
        Phrase(("People there pay with the {currency}, its only currency.",), ("currency",)),
        Phrase(("Its official language is {language}.",), ("language",)),
        Phrase(
            (
                "It is known for its lace and its cheeses.",
                "Its mines were once the deepest known.",
                "It has kept a small navy since the great storms.",
                "Its railways run only by day.",
            )
        ),
    ),
    "river": (
        Phrase(("The {name} is a river that rises in {country}.",), ("country",)),
        Phrase(("It is {length} kilometres long.",), ("length",)),
        Phrase(
            (
                "Barges carried salt on it until the dams were built.",
                "Its floods are recorded on a stone at every ferry.",
                "Anglers come for its trout in spring.",
                "It freezes in most winters.",
            )
        ),
    ),
    "city": (
        Phrase(
            (
                "{name}{also} is a large city in {country}.",
                "{name}{also} is a market town in {country}.",
                "{name}{also} is a city of canals in {country}.",
                "{name}{also} is a port in {country}.",
                "{name}{also} is an old mining town in {country}.",
            ),
            ("country",),
        ),
        Phrase(
            (
                "It was founded in {founded} around a toll bridge.",
                "The town received its charter, and with it its beginning, in {founded}.",
                "Settlers founded it in {founded}.",
            ),
            ("founded",),
        ),
        Phrase(("The {river} flows through it.", "It stands on both banks of the {river}."), ("river",)),
        Phrase(
            (
                "Its clock tower strikes thirteen once a year.",
                "A fair of kites is held there every autumn.",
                "Its tram line is the steepest in use.",
                "Its bakers close for the whole of March.",
            )
        ),
    ),
    "university": (
        Phrase(("{name} is a place of learning in {city}.",), ("city",)),
        Phrase(("It was founded in {founded}.",), ("founded",)),
        Phrase(
            (
                "Its library burned twice and was rebuilt each time.",
                "Its students row against the town each May.",
                "It is known for its collection of mosses.",
                "Lectures there still begin a quarter late.",
            )
        ),
    ),
    "person": (
        Phrase(("{name} (born {date}){also} was {occupation}.",), ("birth year", "occupation")),
        Phrase(("{he} was born in {birthplace}.", "{his} place of birth was {birthplace}."), ("birthplace",)),
        Phrase(("{he} was the {child} of {father}.", "{his} father was {father}."), ("father",)),
        Phrase(("{he} studied at {university}.", "{he} was educated at {university}."), ("university",)),
        Phrase(("{he} married {spouse}.", "{his} spouse was {spouse}."), ("spouse",)),
        Phrase(
            (
                "{he} kept bees and wrote about them.",
                "{his} letters were printed after a long quarrel.",
                "{he} never travelled by sea.",
                "{his} house is a museum now.",
                "{he} won a prize for a garden.",
                "{he} spoke four languages, one of them invented.",
            )
        ),
    ),
    "company": (
        Phrase(
            (
                "{name} is a company founded in {founded} by {founder}.",
                "{founder} founded the company {name} in {founded}.",
            ),
            ("founder", "founded"),
        ),
        Phrase(
            ("It has its headquarters in {headquarters}.", "Its head office stands in {headquarters}."),
            ("headquarters",),
        ),
        Phrase(
            (
                "Its wares were sold from carts at first.",
                "It once employed a whole street.",
                "Its emblem is a heron.",
                "It has been sold and bought back twice.",
            )
        ),
    ),
    "band": (
        Phrase(
            (
                "{name} are a folk band, formed in {formed in} in {formed}.",
                "{name} are a brass band, formed in {formed in} in {formed}.",
                "{name} are a rock band that formed in {formed in} in {formed}.",
            ),
            ("formed in", "formed"),
        ),
        Phrase(("Their lead singer is {singer}.", "{singer} is the lead singer."), ("singer",)),
        Phrase(
            (
                "They never play the same song twice in a night.",
                "Their first concert was in a boathouse.",
                "They tour in a converted post van.",
                "Their drums were lent by a fire brigade.",
            )
        ),
    ),
    "film": (
        Phrase(
            (
                "{name} is a {released} {genre} directed by {director}.",
                "{name} is a {genre} that {director} directed in {released}.",
            ),
            ("director", "released"),
        ),
        Phrase(("{star} plays the leading part.", "It stars {star}."), ("star",)),
        Phrase(
            (
                "It was shot in nineteen days.",
                "Its only copy was found in a barn.",
                "Its score is for organ.",
                "Critics walked out, and came back the next night.",
                "It was remade for the stage.",
            )
        ),
    ),
    "novel": (
        Phrase(
            (
                "{name} is a novel by {author}, first printed in {released}.",
                "{name} is a {released} novel written by {author}.",
            ),
            ("author", "released"),
        ),
        Phrase(("It was published by {publisher}.", "Its publisher is {publisher}."), ("publisher",)),
        Phrase(
            (
                "It is told backwards, from the funeral to the christening.",
                "Its hero has no name.",
                "It has been translated eleven times.",
                "A chapter was cut and printed years later.",
                "It is set in one night.",
            )
        ),
    ),
    "album": (
        Phrase(
            (
                "{name} is an album that {performer} recorded in {released}.",
                "{name} is a {released} album by {performer}.",
            ),
            ("performer", "released"),
        ),
        Phrase(("It came out on the label of {label}.", "Its label is {label}."), ("label",)),
        Phrase(
            (
                "Its sleeve shows an empty chair.",
                "It was recorded in a lighthouse.",
                "It sold best in winter.",
                "Its last song is eleven minutes long.",
            )
        ),
    ),
}
"""Phrases by kind of entity, in the order of the passage; the first sentence names the entity."""

ALSO = (", also known as {},", ", sometimes called {},", " (or {})")
"""Phrases in which a passage gives another name."""
