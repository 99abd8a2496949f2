"""A small copy of WebShop's data in the published form, with all that the importer must cope with."""

import json


def product(asin, **fields):
    return {
        "asin": asin,
        "name": f"Product {asin}",
        "full_description": "A description.",
        "small_description": ["First point.", "Second point."],
        "pricing": "$12.50",
        "product_category": "Home \u203a Lamps",
        "category": "garden",
        "query": " Desk LAMPS ",
        "customization_options": {"Color": [{"value": " Red/Blue "}, {"value": "Red/Blue"}], "Size": None},
        "page": 1,
        "images": ["https://example.org/1.jpg"],
        **fields,
    }


PRODUCTS = [
    product("B1"),
    product("nan"),
    product("B2", small_description="one text", pricing="$1,000.5$20", customization_options=""),
    product("LONGER4THAN10"),
    product("B1", name="the same again"),
    product("B0", pricing="", full_description="caf\u00e9 \u2764\ufe0f", name='Lamp "X"'),
    product("B3", small_description=[], pricing=None, customization_options={}),
]

ENTRIES = {
    "B3": {"attributes": []},
    "B0": {"attributes": ["red", "soft"], "instruction": "find a lamp", "instruction_attributes": ["red"]},
    "B1": {"attributes": ["solid wood"], "instruction": None},
    "OTHER": {"attributes": ["x"], "instruction": "not here", "instruction_attributes": ["x"]},
}

WISHES = {
    "B0": [
        {
            "instruction": "a red lamp.",
            "instruction_attributes": ["red"],
            "instruction_options": ["red | blue"],
        },
        {"instruction": "a lamp", "instruction_attributes": [], "instruction_options": []},
    ],
    "OTHER": [{"instruction": "x", "instruction_attributes": ["x"], "instruction_options": []}],
}


def write(folder, ending="_1000", *, products=None, entries=None, wishes=WISHES):
    """Write the files of a set."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"items_shuffle{ending}.json").write_text(json.dumps(products or PRODUCTS, indent=1))
    (folder / f"items_ins_v2{ending}.json").write_text(json.dumps(entries or ENTRIES))
    if wishes is not None:
        (folder / "items_human_ins.json").write_text(json.dumps(wishes))
    return folder
