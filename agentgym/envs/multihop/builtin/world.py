"""The built-in world: people, works and places, and the relations between them.

Everything follows from `VERSION`. An entity's number is its passage's; its kind's entities stand in a row.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from agentgym.core.rng import KeyRng, mix
from agentgym.envs.multihop.builtin import names
from agentgym.envs.multihop.builtin.names import Titles

VERSION = 1
"""Version of the words and rules; worlds of different versions have nothing in common."""

SIZES = {
    "country": 24,
    "river": 60,
    "city": 260,
    "university": 130,
    "person": 2_100,
    "company": 320,
    "band": 260,
    "film": 700,
    "novel": 560,
    "album": 420,
}
"""Entities of each kind, in the order of their numbers."""

FAMILY = 5
"""People of one surname."""

SHARED_TITLES = 35
"""Novels and albums in a hundred that are called as something else is."""

HELD_OUT = 10
"""People, organisations and works in a hundred that no question of the usual splits touches."""

BACKGROUND = ("country", "river", "city", "university")
"""Kinds that none is held out of."""

WORKS = ("film", "novel", "album")


class Date(NamedTuple):
    """A day; dates compare as time goes."""

    year: int
    month: int
    day: int

    def __str__(self) -> str:
        """Return it as passages write it."""
        return f"{self.day} {names.MONTHS[self.month - 1]} {self.year}"


NEVER = Date(0, 0, 0)


@dataclass(slots=True)
class Entity:
    """Someone or something that has a passage."""

    number: int
    kind: str
    name: str
    """Name in questions: no other entity of its kind has it."""
    title: str = ""
    """Title of its passage; no other passage has it."""
    aliases: tuple[str, ...] = ()
    """Other names, which are in its passage."""
    links: dict[str, int] = field(default_factory=dict)
    """Entities it is related to, by relation."""
    values: dict[str, str] = field(default_factory=dict)
    """Other facts about it, by relation."""
    date: Date = NEVER
    """Date of its birth, founding or release."""
    she: bool = False

    @property
    def held_out(self) -> bool:
        """Whether its questions belong to the split of unseen entities."""
        return self.kind not in BACKGROUND and mix(self.number + 1) % 100 < HELD_OUT


class FictionalWorld:
    """All entities, by number."""

    def __init__(self) -> None:
        """Draw everything anew."""
        first, self._range = 0, {}
        for kind, size in SIZES.items():
            self._range[kind] = range(first, first + size)
            first += size
        self.entities = [Entity(i, kind, "") for kind, numbers in self._range.items() for i in numbers]
        self._draw_places()
        self._draw_people()
        self._draw_organisations()
        self._draw_works()
        count = Counter(entity.name for entity in self.entities)
        for entity in self.entities:
            entity.title = f"{entity.name} ({entity.kind})" if count[entity.name] > 1 else entity.name

    def of_kind(self, kind: str) -> list[Entity]:
        """Return the entities of a kind."""
        numbers = self._range[kind]
        return self.entities[numbers.start : numbers.stop]

    def held_out(self, number: int) -> bool:
        """Return whether an entity is."""
        return self.entities[number].held_out

    def _pick(self, draws: KeyRng, kind: str) -> Entity:
        return self.entities[draws.pick(self._range[kind])]

    # ---- places ----------------------------------------------------------------------------------

    def _draw_places(self) -> None:
        draws, titles = KeyRng(VERSION, 1), Titles()
        countries, rivers, cities = (self.of_kind(kind) for kind in ("country", "river", "city"))
        for i, country in enumerate(countries):
            country.name = titles.new(draws, names.PLACE_HEADS, names.COUNTRY_TAILS)
            stem = country.name.rstrip("aeiou")
            country.values = {
                "currency": names.CURRENCIES[i],
                "language": stem + draws.pick(names.LANGUAGE_TAILS),
            }
            country.aliases = (f"Republic of {country.name}",) if draws.below(2) else ()
            country.links["capital"] = cities[i].number
        for i, river in enumerate(rivers):
            river.name = titles.new(draws, names.PLACE_HEADS, names.RIVER_TAILS)
            river.links["country"] = countries[i % len(countries)].number
            river.values["length"] = str(draws.between(40, 900))
        for i, city in enumerate(cities):
            self._found_city(city, i, draws, titles)

    def _found_city(self, city: Entity, i: int, draws: KeyRng, titles: Titles) -> None:
        countries, rivers = self.of_kind("country"), self.of_kind("river")
        city.name = titles.new(draws, names.PLACE_HEADS, names.CITY_TAILS)
        place = i if i < len(countries) else draws.below(len(countries))
        city.links["country"] = countries[place].number
        near = rivers[place :: len(countries)]
        city.links["river"] = draws.pick(near).number
        city.date = _date(draws, 1050, 1850)
        city.values["founded"] = str(city.date.year)
        if not draws.below(4):
            city.aliases = (f"{city.name}-upon-{self.entities[city.links['river']].name}",)

    # ---- people ----------------------------------------------------------------------------------

    def _draw_people(self) -> None:
        draws, surnames, titles = KeyRng(VERSION, 2), Titles(), Titles()
        people = self.of_kind("person")
        for first in range(0, len(people), FAMILY):
            surname = surnames.new(draws, names.SURNAME_HEADS, names.SURNAME_TAILS)
            family = people[first : first + FAMILY]
            for i, person in enumerate(family):
                self._bear(person, family[:i], draws)
                self._name(person, surname, family[:i], draws, titles)
        self._marry(people, draws)
        for person in people:
            plain = " ".join(word for word in person.name.split() if not word.endswith("."))
            if plain != person.name and titles.take(plain):
                person.aliases = (plain,)

    def _bear(self, person: Entity, elders: list[Entity], draws: KeyRng) -> None:
        """Draw a person; a father among the elders of the family, more often than not."""
        fathers = [elder for elder in elders if not elder.she and elder.date.year < 1945]
        person.she = bool(draws.below(2))
        if fathers and draws.below(5):
            father = fathers[-1] if draws.below(3) else draws.pick(fathers)
            person.links["father"] = father.number
            person.date = _date(draws, father.date.year + 22, father.date.year + 40)
        else:
            person.date = _date(draws, 1870, 1935)
            person.she = person.she and bool(elders)
        person.links["birthplace"] = self._pick(draws, "city").number
        if draws.below(5):
            person.links["university"] = self._pick(draws, "university").number
        person.values = {"occupation": draws.pick(names.OCCUPATIONS), "birth year": str(person.date.year)}

    def _name(
        self, person: Entity, surname: str, elders: list[Entity], draws: KeyRng, titles: Titles
    ) -> None:
        """Name a person, now and then as an elder of the family but for the initial."""
        alike = [elder.name.split()[0] for elder in elders if elder.she == person.she]
        while True:
            again = alike and draws.below(3) == 0
            given = (
                draws.pick(alike) if again else draws.pick(names.GIVEN_SHE if person.she else names.GIVEN_HE)
            )
            initial = f"{draws.pick(names.INITIALS)}. " if again or draws.below(2) else ""
            if titles.take(f"{given} {initial}{surname}"):
                person.name = f"{given} {initial}{surname}"
                return

    def _marry(self, people: list[Entity], draws: KeyRng) -> None:
        """Marry people of about one age and of different families, about six in ten."""
        by_age = sorted(people, key=lambda person: (person.date, person.number))
        for i, one in enumerate(by_age):
            if "spouse" in one.links or draws.below(3) == 0:
                continue
            for other in by_age[i + 1 : i + 12]:
                strangers = one.number // FAMILY != other.number // FAMILY
                if strangers and one.she != other.she and "spouse" not in other.links:
                    one.links["spouse"], other.links["spouse"] = other.number, one.number
                    break

    # ---- organisations ---------------------------------------------------------------------------

    def _draw_organisations(self) -> None:
        draws, titles = KeyRng(VERSION, 3), Titles()
        cities = self.of_kind("city")
        for i, university in enumerate(self.of_kind("university")):
            city = cities[i]
            university.name = (
                f"University of {city.name}" if draws.below(3) else f"{city.name} Institute of Arts"
            )
            university.links["city"] = city.number
            self._begin(university, "founded", draws, 1400, 1900)
        for company in self.of_kind("company"):
            founder = self._pick(draws, "person")
            company.name = titles.new(
                draws, (founder.name.split()[-1], *names.ADJECTIVES), names.TRADES, joined=" "
            )
            company.links = {"founder": founder.number, "headquarters": self._pick(draws, "city").number}
            self._begin(company, "founded", draws, founder.date.year + 20, founder.date.year + 45)
        for band in self.of_kind("band"):
            band.name = "The " + titles.new(draws, names.ADJECTIVES, names.ANIMALS, joined=" ")
            singer = self._pick(draws, "person")
            band.links = {"singer": singer.number, "formed in": self._pick(draws, "city").number}
            self._begin(band, "formed", draws, singer.date.year + 16, singer.date.year + 40)

    def _begin(self, entity: Entity, relation: str, draws: KeyRng, earliest: int, latest: int) -> None:
        entity.date = _date(draws, earliest, latest)
        entity.values[relation] = str(entity.date.year)

    # ---- works -----------------------------------------------------------------------------------

    def _draw_works(self) -> None:
        draws = KeyRng(VERSION, 4)
        shared: list[str] = []
        for kind in WORKS:
            titles = Titles()
            for work in self.of_kind(kind):
                work.name = self._entitled(draws, titles, shared)
                self._make(work, draws)
            shared = [work.name for work in self.of_kind(kind)]

    def _entitled(self, draws: KeyRng, titles: Titles, shared: list[str]) -> str:
        """Draw the title of a work, now and then that of one of another kind."""
        while True:
            shape = draws.below(6)
            if shared and draws.below(100) < SHARED_TITLES:
                title = draws.pick(shared)
            elif shape < 2:
                title = f"The {draws.pick(names.ADJECTIVES)} {draws.pick(names.NOUNS)}"
            elif shape < 4:
                title = f"{draws.pick(names.ADJECTIVES)} {draws.pick(names.NOUNS)}"
            elif shape < 5:
                title = f"{draws.pick(names.NOUNS)} of {self._pick(draws, 'city').name}"
            else:
                title = f"The {draws.pick(names.NOUNS)} and the {draws.pick(names.NOUNS)}"
            if titles.take(title.removeprefix("The ")):
                return title

    def _make(self, work: Entity, draws: KeyRng) -> None:
        if work.kind == "album":
            band = self._pick(draws, "band")
            work.links = {"performer": band.number, "label": self._pick(draws, "company").number}
            self._begin(work, "released", draws, band.date.year + 1, band.date.year + 25)
            return
        maker, other = self._pick(draws, "person"), self._pick(draws, "person")
        if work.kind == "film":
            work.links = {"director": maker.number}
            if other is not maker:
                work.links["star"] = other.number
            work.values["genre"] = draws.pick(names.GENRES)
        else:
            work.links = {"author": maker.number, "publisher": self._pick(draws, "company").number}
        self._begin(work, "released", draws, maker.date.year + 24, maker.date.year + 45)


@lru_cache(maxsize=1)
def builtin_world() -> FictionalWorld:
    """Return the world; the same object each time."""
    return FictionalWorld()


def _date(draws: KeyRng, earliest: int, latest: int) -> Date:
    return Date(draws.between(earliest, latest), draws.between(1, 12), draws.between(1, 28))
