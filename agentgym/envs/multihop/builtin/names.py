"""Names of the built-in world: all of them made up."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.core.rng import KeyRng

GIVEN_HE: Sequence[str] = (
    "Alvar", "Bastin", "Corvin", "Dorian", "Edric", "Fenn", "Garrick", "Halvor", "Ivo", "Jorun",
    "Kaspar", "Leopold", "Marek", "Nilo", "Osric", "Pavo", "Quentin", "Roald", "Stellan", "Tibor",
    "Ulric", "Valten", "Wendel", "Yorick", "Zoran",
)  # fmt: skip
GIVEN_SHE: Sequence[str] = (
    "Adela", "Brisa", "Cosima", "Delphine", "Elin", "Fiora", "Greta", "Hedda", "Ilsa", "Jovana",
    "Katla", "Liora", "Mirela", "Nadia", "Odile", "Petra", "Runa", "Sabine", "Tamsin", "Ursel",
    "Vesna", "Wilma", "Xenia", "Ylva", "Zelda",
)  # fmt: skip
SURNAME_HEADS: Sequence[str] = (
    "Ash", "Bran", "Cald", "Dor", "Eld", "Far", "Gal", "Harg", "Isk", "Jarn", "Kest", "Lind", "Mor",
    "Norr", "Ost", "Pell", "Quill", "Rav", "Sand", "Tarn", "Und", "Vark", "Wint", "Yar", "Zell",
)  # fmt: skip
SURNAME_TAILS: Sequence[str] = (
    "ovic", "berg", "mere", "aldi", "sen", "worth", "ek", "ander", "wyn", "ova", "ström", "field", "is",
    "quist", "ane", "ado", "hart", "ley",
)  # fmt: skip
PLACE_HEADS: Sequence[str] = (
    "Abel", "Bor", "Cren", "Dal", "Esk", "Fal", "Gren", "Hol", "Ister", "Jun", "Kal", "Lor", "Mel",
    "Nor", "Ober", "Pol", "Ras", "Sel", "Tor", "Ulm", "Ver", "Wex", "Yel", "Zar",
)  # fmt: skip
CITY_TAILS: Sequence[str] = (
    "burg",
    "stad",
    "haven",
    "minster",
    "grad",
    "ford",
    "mouth",
    "dorf",
    "vik",
    "port",
    "bridge",
    "wick",
    "holm",
)
RIVER_TAILS: Sequence[str] = ("ine", "awa", "era", "une", "ith", "osa", "enne", "ulla")
COUNTRY_TAILS: Sequence[str] = ("onia", "avia", "esia", "ardia", "istan", "urland", "evia")
LANGUAGE_TAILS: Sequence[str] = ("ish", "ese", "ic")
CURRENCIES: Sequence[str] = (
    "Aurel", "Brel", "Corin", "Dint", "Erlo", "Fenk", "Gild", "Hesk", "Jat", "Kroll", "Lumo", "Merk",
    "Nob", "Orlin", "Pint", "Quar", "Ress", "Sarl", "Tolar", "Umber", "Velt", "Wenn", "Yost", "Zeck",
)  # fmt: skip
ADJECTIVES: Sequence[str] = (
    "Amber", "Broken", "Crimson", "Distant", "Endless", "Fading", "Gilded", "Hollow", "Idle", "Jade",
    "Kindred", "Lonely", "Midnight", "Northern", "Open", "Paper", "Quiet", "Restless", "Silver",
    "Tangled", "Unwritten", "Velvet", "Winter", "Yellow",
)  # fmt: skip
NOUNS: Sequence[str] = (
    "Anchor", "Bell", "Canal", "Door", "Ember", "Ferry", "Garden", "Harbour", "Island", "Journey",
    "Kite", "Lantern", "Mirror", "Needle", "Orchard", "Passage", "Quarry", "River", "Station",
    "Tower", "Umbrella", "Valley", "Window", "Yard",
)  # fmt: skip
ANIMALS: Sequence[str] = (
    "Badgers", "Cranes", "Drifters", "Foxes", "Herons", "Jackals", "Larks", "Magpies", "Otters", "Pilgrims",
    "Ravens", "Sparrows", "Tailors", "Wolves",
)  # fmt: skip
TRADES: Sequence[str] = (
    "Instruments", "Foundry", "Textiles", "Press", "Records", "Motors", "Optics", "Shipping", "Ceramics",
    "Studios",
)  # fmt: skip
INITIALS = "BCDEFGHJKLMNPRSTVW"
"""Initials of middle names; no A, which would be dropped as an article where answers are compared."""

MONTHS: Sequence[str] = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
OCCUPATIONS: Sequence[str] = (
    "painter", "architect", "chemist", "botanist", "composer", "journalist", "sculptor", "geologist",
    "photographer", "physician", "poet", "engineer", "astronomer", "historian",
)  # fmt: skip
GENRES: Sequence[str] = (
    "drama",
    "comedy",
    "thriller",
    "romance",
    "war film",
    "mystery",
    "western",
    "musical",
)


class Titles:
    """Hands out names that nothing else of a kind has."""

    def __init__(self) -> None:
        """Begin with none taken."""
        self._taken: set[str] = set()

    def new(self, draws: KeyRng, *parts: Sequence[str], joined: str = "") -> str:
        """Draw a name, a word of each part; parts of which all names are taken are a ValueError."""
        for _ in range(1_000):
            name = joined.join(draws.pick(part) for part in parts)
            if self.take(name):
                return name
        raise ValueError("too few words for so many names")

    def take(self, name: str) -> bool:
        """Return whether a name is free, and take it."""
        if name in self._taken:
            return False
        self._taken.add(name)
        return True
