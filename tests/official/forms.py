"""Records in the forms that the publishers' own loaders read."""

import json
import re
from collections.abc import Iterable
from typing import Any

Record = dict[str, Any]


def jsonl(lines: Iterable[Record]) -> bytes:
    """Return lines of JSON."""
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def sentences(text: str) -> list[str]:
    """Cut a text into sentences as HotpotQA has them: each but the first begins with its blank."""
    return re.split(r"(?<=[.!?])(?= )", text)


DERIVED = (
    "Title",
    "Description",
    "Reviews",
    "Rating",
    "BulletPoints",
    "Price",
    "options",
    "option_to_image",
    "Attributes",
    "MainImage",
)
"""Fields that WebShop's loader adds to a product."""


def scraped(product: Record) -> Record:
    """Undo what WebShop's loader did to a product, but what cannot be told from it."""
    raw = {key: value for key, value in product.items() if key not in DERIVED}
    raw["pricing"] = "".join(f"${price}" for price in product["pricing"])
    # fields that its loader drops
    return {**raw, "brand": "", "list_price": "", "total_reviews": "", "small_description_old": ""}


def _context(record: Record) -> list[list[Any]]:
    return [[each["title"], sentences(each["text"])] for each in record["passages"]]


def hotpot(record: Record) -> Record:
    """Return a record of HotpotQA's README."""
    return {
        "supporting_facts": record["supporting_facts"],
        "level": record["level"],
        "question": record["question"],
        "context": _context(record),
        "answer": record["answer"],
        "_id": record["id"],
        "type": record["type"],
    }


def twowiki(record: Record) -> Record:
    """Return a record of 2wikimultihop's README; ids are of Wikidata where there are any."""
    return {
        "_id": record["id"],
        "type": record["type"],
        "question": record["question"],
        "context": [[title, [part.strip() for part in parts]] for title, parts in _context(record)],
        "entity_ids": "Q1_Q2",
        "supporting_facts": record["supporting_facts"],
        "evidences": [[title, "relation", record["answer"]] for title, _ in record["supporting_facts"]],
        "answer": record["answer"],
        "evidences_id": [],
        "answer_id": None,
    }


def musique(record: Record) -> Record:
    """Return a record as musique's script writes it."""
    return {
        "id": record["id"],
        "paragraphs": [
            {
                "idx": number,
                "title": each["title"],
                "paragraph_text": each["text"],
                "is_supporting": each["is_supporting"],
            }
            for number, each in enumerate(record["passages"])
        ],
        "question": record["question"],
        "question_decomposition": record["decomposition"],
        "answer": record["answer"],
        "answer_aliases": record["aliases"],
        "answerable": True,
    }


def unanswerable(record: Record) -> Record:
    """Return the twin of a question, without a paragraph that it needs."""
    last = record["question_decomposition"][-1]
    paragraphs = [each for each in record["paragraphs"] if each["idx"] != last["paragraph_support_idx"]]
    return {
        **record,
        "answerable": False,
        "paragraphs": [{**each, "idx": number} for number, each in enumerate(paragraphs)],
        "question_decomposition": [
            *record["question_decomposition"][:-1],
            {**last, "paragraph_support_idx": None},
        ],
    }
