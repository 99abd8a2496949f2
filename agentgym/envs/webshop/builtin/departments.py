"""Departments of the built-in shop: the kinds of product in each, and their attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of product."""

    noun: str
    """One of them, in lower case."""
    query: str
    """Several of them: what one searches for."""
    path: tuple[str, ...]
    """Categories below the department's."""
    prices: tuple[int, int]
    """Lowest and highest usual price, in dollars."""
    options: tuple[str, ...]
    """Keys of `choices.OPTIONS` that products of the kind may have."""
    attributes: tuple[str, ...]
    """What only products of this kind can be said to be or, marked ``+``, to have."""


@dataclass(frozen=True, slots=True)
class Department:
    """A department of the shop."""

    name: str
    """The short category."""
    root: str
    """First category of every path."""
    attributes: tuple[str, ...]
    """What all its products can be said to be or, marked ``+``, to have."""
    uses: tuple[str, ...]
    """What its products are for."""
    kinds: tuple[Kind, ...]


def _kind(noun: str, path: str, low: int, high: int, options: str, attributes: str, query: str = "") -> Kind:
    """Read a kind; the plural is given where it is irregular, a path's parts are split by ``>``."""
    return Kind(
        noun, query or f"{noun}s", _split(path, ">"), (low, high), tuple(options.split()), _split(attributes)
    )


def _department(name: str, root: str, attributes: str, uses: str, kinds: Sequence[Kind]) -> Department:
    return Department(name, root, _split(attributes), _split(uses), tuple(kinds))


def _split(text: str, separator: str = ",") -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(separator))


EVERYWHERE = ("long lasting", "eco friendly", "gift ready", "responsibly made", "+lifetime warranty")
"""What products of any department can be said to be or have."""

DEPARTMENTS = (
    _department(
        "fashion", "Clothing & Accessories",
        "machine washable, quick drying, fade resistant, hand washable, slim fitting, loose fitting, "
        "stretch woven, +organic cotton, +recycled polyester, +hidden pockets, +flat seams, +contrast trim",
        "Daily Wear, Office Days, Weekend Trips, Autumn Walks, Evening Parties, Layering, Commuting",
        (
            _kind("rain jacket", "Outerwear > Rainwear", 35, 150, "color letters fit",
                  "wind blocking, moisture wicking, +sealed seams, +packable hood, +adjustable cuffs"),
            _kind("hooded sweatshirt", "Tops > Sweatshirts", 22, 70, "color letters pattern",
                  "fleece lined, +tagless comfort, +kangaroo pouch, +long sleeves, +zip front"),
            _kind("jogger", "Bottoms > Active Bottoms", 18, 60, "color letters fit",
                  "ankle tapered, moisture wicking, +drawstring waist, +elastic waist, +side stripes"),
            _kind("summer dress", "Dresses > Casual Dresses", 20, 80, "color letters pattern",
                  "knee length, fully lined, +square neckline, +short sleeves, +tie belt", "summer dresses"),
            _kind("polo shirt", "Tops > Polos", 15, 55, "color letters fit",
                  "pilling free, moisture wicking, +ribbed collar, +short sleeves, +chest pocket"),
            _kind("cardigan", "Tops > Knitwear", 25, 90, "color letters",
                  "cable knit, lightly padded, +wooden toggles, +long sleeves, +merino wool"),
        ),
    ),
    _department(
        "shoes", "Shoes & Luggage",
        "scuff resistant, water repellent, odor fighting, easily wiped, double stitched, +vegan leather, "
        "+padded lining, +reflective piping, +breathable mesh, +metal eyelets, +suede accents",
        "Long Walks, Work Shifts, City Travel, Muddy Trails, Cold Mornings, Short Holidays, Dancing",
        (
            _kind("trail running shoe", "Footwear > Athletic", 40, 140, "color feet",
                  "shock absorbing, slip resistant, +rock plate, +lugged outsole, +removable insole"),
            _kind("canvas sneaker", "Footwear > Casual", 22, 75, "color feet pattern",
                  "lace free, arch supporting, +rubber toe, +memory foam, +cushioned heel"),
            _kind("ankle boot", "Footwear > Boots", 45, 160, "color feet",
                  "slip resistant, wide cut, +block heel, +side gusset, +zipper closure"),
            _kind("house slipper", "Footwear > Slippers", 12, 40, "color feet",
                  "indoor outdoor, arch supporting, +plush lining, +memory foam, +open back"),
            _kind("travel backpack", "Luggage > Backpacks", 30, 120, "color liters",
                  "cabin approved, theft deterring, +laptop sleeve, +chest strap, +bottle holder"),
            _kind("rolling suitcase", "Luggage > Suitcases", 60, 240, "color liters",
                  "+hard shell, cabin approved, +spinner wheels, +telescopic handle, +combination lock"),
        ),
    ),
    _department(
        "beauty", "Beauty & Personal Care",
        "cruelty free, paraben free, dermatologist tested, deeply nourishing, travel sized, alcohol free, "
        "sensitive safe, +shea butter, +aloe vera, +green tea, +jojoba oil, +refillable packaging",
        "Dry Skin, Sensitive Skin, Morning Routines, Winter Care, Gym Bags, Night Care, Curly Hair",
        (
            _kind("face moisturizer", "Skin Care > Face", 9, 60, "milliliters pack scent",
                  "oil controlling, +matte finish, fast absorbing, +sun filter, +hyaluronic acid, "
                  "+pump dispenser"),
            _kind("shampoo bar", "Hair Care > Shampoo", 7, 25, "scent pack",
                  "sulfate free, dandruff fighting, rich lathering, +travel tin, +argan extract, +tea tree"),
            _kind("lip balm", "Skin Care > Lips", 4, 18, "color scent pack",
                  "highly glossy, crack healing, +tinted finish, +beeswax base, +sun filter, +twist tube"),
            _kind("body lotion", "Skin Care > Body", 8, 40, "scent milliliters",
                  "fast absorbing, self tanning, skin firming, +oat extract, +pump dispenser, +rice bran"),
            _kind("hair mask", "Hair Care > Treatments", 9, 45, "milliliters scent",
                  "curl defining, frizz taming, color protecting, +keratin complex, +argan extract, "
                  "+coconut milk"),
            _kind("hand cream", "Skin Care > Hands", 5, 28, "scent milliliters pack",
                  "non greasy, fast absorbing, nail strengthening, +cocoa glycerin, +rice bran, +twist tube"),
        ),
    ),
    _department(
        "grocery", "Grocery & Gourmet Food",
        "gluten free, low sodium, plant based, dairy free, nut free, non gmo, small batch, fair trade, "
        "kosher certified, +resealable packaging, +clean recipe, +organic ingredients",
        "School Lunches, Road Trips, Breakfast, Office Snacking, Holiday Tables, Late Nights, Picnics",
        (
            _kind("granola bar", "Snacks > Bars", 6, 32, "flavor pack",
                  "oven baked, high protein, naturally sweetened, +chewy center, +whole grains, "
                  "+yogurt coating"),
            _kind("coffee blend", "Beverages > Coffee", 9, 45, "grams flavor",
                  "slow roasted, finely ground, low acid, +single origin, +full body, +crema layer"),
            _kind("herbal tea", "Beverages > Tea", 5, 28, "flavor grams pack",
                  "caffeine free, sun dried, sleep promoting, +loose leaves, +silk sachets, +citrus peel"),
            _kind("trail mix", "Snacks > Mixes", 7, 35, "grams flavor",
                  "lightly salted, high protein, oven roasted, +dried berries, +pumpkin seeds, "
                  "+whole almonds", "trail mixes"),
            _kind("hot sauce", "Condiments > Sauces", 5, 24, "flavor pack",
                  "barrel aged, extremely hot, naturally fermented, +ghost peppers, +roasted onions, "
                  "+squeeze bottle"),
            _kind("chocolate truffle", "Snacks > Sweets", 8, 50, "flavor pack grams",
                  "hand rolled, bean crafted, naturally sweetened, +liquid center, +cocoa dusting, "
                  "+crunchy shell"),
        ),
    ),
    _department(
        "electronics", "Electronics",
        "fast charging, energy saving, splash proof, dust proof, plug ready, drop tested, +status light, "
        "+touch controls, +aluminum housing, +carrying case, +surge protection, +quick manual",
        "Home Office, Gaming Nights, Travel, Video Calls, Gym Sessions, Students, Road Trips",
        (
            _kind("wireless earbud", "Audio > Headphones", 18, 160, "color set",
                  "noise reducing, low latency, sweat proof, +ear hooks, +bluetooth pairing, +spare tips"),
            _kind("portable speaker", "Audio > Speakers", 20, 180, "color set",
                  "+deep bass, fully waterproof, voice controlled, +stereo linking, +bluetooth pairing, "
                  "+fabric grille"),
            _kind("charging cable", "Accessories > Cables", 6, 28, "color length plug",
                  "tangle free, magnetically attached, data capable, +angled plug, +braided jacket, "
                  "+cable tie"),
            _kind("power bank", "Accessories > Chargers", 15, 90, "color charge plug",
                  "flight approved, pocket sized, +solar panel, +charge display, +twin outputs, "
                  "+built torch"),
            _kind("webcam", "Computers > Cameras", 20, 130, "color mount",
                  "wide angle, high resolution, noise reducing, +privacy shutter, +ring light, "
                  "+tripod thread"),
            _kind("security camera", "Smart Home > Cameras", 25, 190, "color memory mount",
                  "weather sealed, motion sensing, high resolution, +night vision, +alarm siren, "
                  "+wall bracket"),
        ),
    ),
    _department(
        "garden", "Home & Garden",
        "stain resistant, space saving, hand finished, easily assembled, pet friendly, child safe, color "
        "matched, +natural fibers, +brass accents, +matte coating, +gift box, +leather details",
        "Living Rooms, Small Flats, Guest Rooms, Balconies, Reading Corners, Nurseries, Farmhouse Decor",
        (
            _kind("throw pillow", "Decor > Pillows", 10, 45, "color pattern pack",
                  "feather filled, double sided, +hidden zipper, +velvet cover, +cotton tassels, "
                  "+linen blend"),
            _kind("area rug", "Decor > Rugs", 30, 260, "color rug pattern",
                  "low piled, hand woven, double sided, +rubber backing, +cotton tassels, +jute border"),
            _kind("blackout curtain", "Decor > Curtains", 18, 75, "color pattern pack",
                  "heat blocking, noise dampening, double sided, +grommet top, +linen blend, "
                  "+thermal backing"),
            _kind("table lamp", "Lighting > Lamps", 18, 110, "color set",
                  "warm glowing, hand painted, eye caring, +dimmer switch, +ceramic base, +pull chain"),
            _kind("wall shelf", "Furniture > Shelving", 16, 95, "color inches",
                  "load bearing, corner fitting, +rope brackets, +hook rail, +solid wood, "
                  "+invisible mount", "wall shelves"),
            _kind("plant pot", "Outdoors > Planters", 8, 55, "color inches pack",
                  "frost resistant, self watering, hand painted, +drainage holes, +ceramic glaze, "
                  "+cork saucer"),
        ),
    ),
    _department(
        "kitchen", "Kitchen & Dining",
        "dishwasher safe, scratch resistant, bpa free, space saving, odor free, easy clean, flame proof, "
        "+stainless steel, +silicone grip, +bamboo accents, +hanging loop, +matching lid",
        "Family Dinners, Meal Prep, Camping, Baking, Small Kitchens, Packed Lunches, Wedding Gifts",
        (
            _kind("frying pan", "Cookware > Pans", 16, 110, "color inches set",
                  "induction ready, non stick, oven safe, +pour spouts, +copper core, +riveted handle"),
            _kind("water bottle", "Drinkware > Bottles", 10, 45, "color ounces",
                  "leak proof, vacuum insulated, sweat free, +straw lid, +wide mouth, +carrying loop"),
            _kind("food container", "Storage > Containers", 9, 50, "color ounces pack",
                  "leak proof, freezer safe, microwave safe, +snap clips, +measuring marks, +steam vent"),
            _kind("chef knife", "Cutlery > Knives", 18, 150, "color inches hand",
                  "full tang, razor sharp, hand forged, +damascus blade, +balanced handle, "
                  "+blade guard", "chef knives"),
            _kind("coffee mug", "Drinkware > Mugs", 8, 35, "color ounces pattern",
                  "microwave safe, hand thrown, vacuum insulated, +cork base, +wide mouth, +speckled glaze"),
            _kind("cutting board", "Cutlery > Boards", 12, 80, "color inches pattern",
                  "knife friendly, reversible sided, +juice groove, +rubber feet, +end grain, +side handles"),
        ),
    ),
    _department(
        "toys", "Toys & Games",
        "screen free, battery free, child safe, non toxic, skill building, teacher approved, allergy "
        "tested, +rounded edges, +storage tub, +illustrated guide, +travel pouch, +glitter details",
        "Birthday Gifts, Rainy Days, Classrooms, Party Favors, Toddlers, Family Evenings, Car Rides",
        (
            _kind("building block set", "Learning > Construction", 12, 80, "theme set",
                  "snug fitting, magnetically joined, kindergarten ready, +ramp pieces, +gear wheels, "
                  "+tiny figures"),
            _kind("plush animal", "Stuffed > Animals", 9, 50, "color letters theme",
                  "+weighted belly, super soft, hand stitched, +embroidered eyes, +lavender filling, "
                  "+heartbeat sound"),
            _kind("board game", "Games > Board Games", 14, 65, "theme set",
                  "quick playing, easily learned, fully cooperative, +score pad, +wooden tokens, "
                  "+sand timer"),
            _kind("jigsaw puzzle", "Games > Puzzles", 8, 40, "theme set",
                  "snug interlocking, double printed, dust controlled, +poster print, +sorting trays, "
                  "+linen texture"),
            _kind("toy truck", "Vehicles > Trucks", 10, 60, "color theme",
                  "pull back, beach ready, remote steered, +tipping bed, +working lights, +metal axles"),
            _kind("craft kit", "Learning > Crafts", 9, 45, "theme set color",
                  "mess free, pre cut, +washable paint, +glue stick, +yarn bundle, +pattern cards"),
        ),
    ),
    _department(
        "pets", "Pet Supplies",
        "vet approved, anxiety easing, odor trapping, small breed, senior friendly, indoor outdoor, bite "
        "tested, +natural coloring, +care guide, +freshness seal, +sturdy stitching",
        "Puppies, Senior Pets, Tiny Pets, Apartment Pets, Long Walks, Playtime, Car Travel",
        (
            _kind("dog bed", "Dogs > Beds", 20, 120, "color letters firmness",
                  "machine washable, chew resistant, +raised rim, +cooling gel, +orthopedic foam, "
                  "+removable cover"),
            _kind("cat toy", "Cats > Toys", 5, 25, "color theme pack",
                  "motion activated, rip stopping, +feather wand, +catnip filling, +bell charm, "
                  "+crinkle paper"),
            _kind("dog leash", "Dogs > Walking", 9, 40, "color length pattern",
                  "hands free, chew resistant, +swivel clasp, +glowing stitches, +padded handle, "
                  "+shock bungee", "dog leashes"),
            _kind("pet bowl", "Dogs > Feeding", 8, 35, "color ounces pack",
                  "slow feeding, tip proof, dishwasher safe, +spill rim, +raised stand, +silicone base"),
            _kind("cat tree", "Cats > Furniture", 35, 190, "color inches",
                  "wall anchored, easily assembled, +hammock perch, +sisal posts, +plush cave, "
                  "+hanging ball"),
            _kind("dog treat", "Dogs > Food", 6, 32, "meat grams pack",
                  "grain free, slow smoked, high protein, +dental ridges, +rawhide knots, +joint supplement"),
        ),
    ),
    _department(
        "sports", "Sports & Outdoors",
        "sweat wicking, water resistant, ultra light, beginner friendly, impact tested, weather ready, "
        "+carry strap, +repair patches, +storage sack, +training guide, +luminous logo, +nylon webbing",
        "Beginners, Home Workouts, Mountain Hikes, Festivals, Studio Classes, Bike Commutes, Stretching",
        (
            _kind("yoga mat", "Fitness > Mats", 14, 90, "color pattern firmness",
                  "closed cell, extra thick, slip resistant, +alignment lines, +cork surface, "
                  "+natural rubber"),
            _kind("camping tent", "Camping > Tents", 50, 320, "color set",
                  "wind resistant, +freestanding frame, quick pitching, +blackout fabric, "
                  "+mesh windows, +gear loft"),
            _kind("sleeping bag", "Camping > Bedding", 28, 180, "color hand letters",
                  "mummy shaped, machine washable, double zipped, +draft tube, +down filling, +foot vent"),
            _kind("resistance band", "Fitness > Strength", 8, 40, "color firmness pack",
                  "never snapping, latex free, finely stepped, +door anchor, +foam handles, +ankle straps"),
            _kind("bike helmet", "Cycling > Helmets", 22, 120, "color letters pattern",
                  "rear lit, quick adjusting, well ventilated, +magnetic visor, +chin pad, +insect net"),
            _kind("hiking pole", "Camping > Trekking", 18, 95, "color pack",
                  "flip locking, fully folding, shock absorbing, +carbide tips, +cork grips, +snow baskets"),
        ),
    ),
    _department(
        "office", "Office Products",
        "acid free, smudge proof, ready assembled, refill compatible, neatly stacking, anti glare, "
        "+recycled paper, +metal corners, +color tabs, +elastic band, +soft edges, +name plate",
        "Students, Journaling, Home Offices, Meetings, Left Handers, Shared Desks, Exam Weeks",
        (
            _kind("notebook", "Paper > Notebooks", 6, 30, "color ruling pack",
                  "thread bound, lay flat, bleed resistant, +pen loop, +dotted pages, +ribbon marker"),
            _kind("gel pen", "Writing > Pens", 4, 25, "color pack set",
                  "quick setting, fine pointed, smooth gliding, +needle tip, +cushion grip, +clear barrel"),
            _kind("desk organizer", "Storage > Organizers", 12, 60, "color set",
                  "+rotating base, space saving, +phone slot, +mesh drawer, +cable channel, +bamboo tray"),
            _kind("office chair", "Furniture > Chairs", 70, 340, "color firmness",
                  "height adjustable, tilt locking, silently rolling, +lumbar support, "
                  "+padded headrest, +folding arms"),
            _kind("laptop stand", "Furniture > Stands", 16, 80, "color inches mount",
                  "height adjustable, fold flat, well cooled, +rubber feet, +cable channel, +phone slot"),
            _kind("file folder", "Storage > Filing", 6, 35, "color pattern pack",
                  "tear proof, +expanding sides, water resistant, +label window, +snap closure, "
                  "+index sheet"),
        ),
    ),
    _department(
        "tools", "Tools & Home Improvement",
        "corrosion free, heavy duty, oil resistant, workshop graded, puncture proof, one handed, +rubber "
        "coating, +belt clip, +tool roll, +wrist lanyard, +spare parts, +safety lock",
        "Car Repairs, New Homes, Workshops, Roof Work, Hobbyists, Emergency Kits, Garden Jobs",
        (
            _kind("cordless drill", "Power Tools > Drills", 40, 220, "color set",
                  "high torque, variable speed, brushless driven, +hammer mode, +led display, "
                  "+tungsten bits"),
            _kind("screwdriver set", "Hand Tools > Screwdrivers", 12, 70, "color set",
                  "precision ground, shock insulated, +ratchet handle, +bit rack, +magnetic tip, "
                  "+flexible shaft"),
            _kind("work glove", "Safety > Gloves", 7, 35, "color letters pack",
                  "touchscreen ready, machine washable, flame retardant, +knuckle guard, +velcro cuff, "
                  "+leather palm"),
            _kind("flashlight", "Electrical > Flashlights", 9, 75, "color charge pack",
                  "strobe capable, fully waterproof, pocket sized, +zoom lens, +magnetic base, +head band"),
            _kind("tape measure", "Hand Tools > Measuring", 7, 38, "color length",
                  "auto retracting, self locking, extra wide, +dual scale, +magnetic tip, +spirit level"),
            _kind("paint brush", "Painting > Brushes", 6, 40, "inches pack set",
                  "shedding free, streak free, trim sized, +angled bristles, +beech handle, "
                  "+drying hook", "paint brushes"),
        ),
    ),
)  # fmt: skip
"""Twelve, of six kinds each; the last kind of each is held out."""


def plain(attribute: str) -> str:
    """Return an attribute as products and goals write it, without the mark.

    Example:
        >>> plain("+pen loop"), plain("lay flat")
        ('pen loop', 'lay flat')
    """
    return attribute.removeprefix("+")
