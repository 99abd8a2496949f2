"""Product options of the built-in shop: their names and values.

No two different values of this module pass for each other under the reward, which compares colours by
their basic word and other texts roughly; so whether a choice is right is a matter of plain equality.
"""

from __future__ import annotations

COLORS = (
    "black", "white", "navy", "sky blue", "forest green", "olive", "mustard", "burgundy", "charcoal", "ivory",
    "lavender", "coral", "teal", "plum", "rust", "peach", "mint", "turquoise", "magenta", "silver", "bronze",
    "copper", "khaki", "slate", "lilac", "apricot", "lemon yellow", "orange", "violet", "chestnut", "pink",
    "beige", "light gray", "crimson red",
)  # fmt: skip

PATTERNS = ("striped", "floral", "plaid", "polka dot", "geometric", "marbled", "chevron", "paisley", "plain")
THEMES = ("dinosaur", "ocean", "outer space", "jungle", "farmyard", "castle", "pirate", "fairy", "robot")

LETTERS = ("xs", "s", "m", "l", "xl", "xxl")
FITS = ("regular fit", "relaxed fit", "petite", "tall", "athletic cut")
FEET = ("36", "37", "38", "39", "40", "41", "42", "43", "44", "45")
LITERS = ("20l", "35l", "48l", "60l", "90l")
MILLILITERS = ("30ml", "75ml", "100ml", "200ml", "450ml")
GRAMS = ("150g", "250g", "400g", "750g", "1kg")
PACKS = ("1pc", "2pcs", "3pcs", "6pcs", "8pcs", "10pcs")
FEET_LONG = ("3ft", "6ft", "10ft", "15ft")
RUGS = ("2x3ft", "4x6ft", "5x8ft", "8x10ft")
INCHES = ("6in", "8in", "9in", "14in", "27in")
OUNCES = ("12oz", "16oz", "24oz", "40oz", "68oz")
CHARGES = ("5000mah", "12500mah", "20000mah", "26800mah")
MEMORIES = ("32gb", "64gb", "128gb", "512gb")

SCENTS = (
    "eucalyptus", "sandalwood", "jasmine", "bergamot", "cedarwood", "unscented", "lemongrass", "tonka bean",
    "patchouli", "sea breeze", "neroli",
)  # fmt: skip
FLAVORS = (
    "vanilla", "dark cocoa", "salted caramel", "raspberry", "cinnamon", "hazelnut", "maple", "smoked paprika",
    "garlic herb", "chili lime", "honey", "ginger", "coconut",
)  # fmt: skip
MEATS = ("chicken", "beef", "salmon", "turkey", "duck", "venison", "pumpkin")

PLUGS = ("usb c", "lightning", "micro usb", "barrel jack")
MOUNTS = ("tabletop", "wall mount", "floor stand", "clamp on", "hanging")
HANDS = ("left handed", "right handed")
SETS = ("starter set", "deluxe bundle", "refill only", "expert edition")
RULINGS = ("dotted", "lined", "grid", "blank")
FIRMNESSES = ("soft", "medium firm", "extra firm")

OPTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "color": ("color", COLORS),
    "pattern": ("pattern name", PATTERNS),
    "theme": ("style", THEMES),
    "letters": ("size", LETTERS),
    "fit": ("fit type", FITS),
    "feet": ("size", FEET),
    "liters": ("size", LITERS),
    "milliliters": ("size", MILLILITERS),
    "grams": ("size", GRAMS),
    "pack": ("pack size", PACKS),
    "length": ("length", FEET_LONG),
    "rug": ("size", RUGS),
    "inches": ("size", INCHES),
    "ounces": ("size", OUNCES),
    "charge": ("capacity", CHARGES),
    "memory": ("capacity", MEMORIES),
    "scent": ("scent", SCENTS),
    "flavor": ("flavor name", FLAVORS),
    "meat": ("flavor name", MEATS),
    "plug": ("connector", PLUGS),
    "mount": ("style", MOUNTS),
    "hand": ("style", HANDS),
    "set": ("style", SETS),
    "ruling": ("style", RULINGS),
    "firmness": ("firmness", FIRMNESSES),
}
"""Name of an option and its values, by what kinds of product call it."""
