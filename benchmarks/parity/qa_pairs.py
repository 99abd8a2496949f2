"""Questions and answers to score, drawn from a seed: what the official scripts and ours are compared on.

A gold answer is some made-up words, at times a closed answer, a number, nothing or words of other scripts.
An answer given is the gold one, bent: other case, articles, punctuation, order, words left out, repeated or
added, an alias, or another answer altogether. Sets of facts, triples and paragraphs are bent alike.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from agentgym.core.rng import KeyRng

SEED = 12
COUNT = 2_000

CLOSED = ("yes", "no", "noanswer", "Yes.", "NO", "no answer")
ARTICLES = ("a", "an", "the", "The", "A", "AN")
WORDS = (
    *(
        "brimstone",
        "Calloway",
        "dunmere",
        "Ostrava-Vale",
        "St.",
        "Quill's",
        "marrow",
        "Tessaly",
        "of",
        "and",
        "Thea",
    ),
    *(
        "Anders",
        "O'Rook",
        "le",
        "Vale",
        "vale",
        "1887",
        "3,412",
        "$5.20",
        "II",
        "x_y",
        "at&t",
        "half-moon",
        "U.K.",
    ),
    *(
        "Étienne",
        "naïve",
        "Żurek",
        "ØRE",
        "straße",
        "İzmir",
        "e\u0301clair",
        "東雲",
        "Ключ",
        "\u2013",
        "\u201cold\u201d",
    ),
)
BLANKS = (" ", " ", " ", " ", "  ", "\t", "\u00a0", "\n")
MARKS = ("!", "?", ".", ",", "'", '"', "(", ")", "-", "#", "\u2019")
RELATIONS = ("place of birth", "director", "the spouse", "Country of Citizenship", "founded by")


class QAPair(NamedTuple):
    """One question in the files' forms, and what is said to it."""

    hotpot: dict[str, Any]
    """The gold record of HotpotQA and 2WikiMultihopQA."""
    aliases: list[dict[str, Any]]
    """Lines of ``id_aliases.json``."""
    musique: dict[str, Any]
    """The gold record of MuSiQue."""
    answer: str
    facts: list[list[Any]]
    evidence: list[list[str]]
    paragraphs: list[int]


def draw_pairs(seed: int = SEED, count: int = COUNT) -> list[QAPair]:
    """Return pairs; the same for the same seed in any version of Python and numpy."""
    return [_Drawer(KeyRng(seed, number), number).pair() for number in range(count)]


class _Drawer:
    """Draws one pair."""

    def __init__(self, rng: KeyRng, number: int):
        self._rng = rng
        self._pick = rng.pick
        self._number = number

    def pair(self) -> QAPair:
        answer = self._answer()
        names = [self._answer() for _ in range(self._one_in(2) and 1 + self._rng.below(3))]
        demonyms = [self._answer() for _ in range(self._one_in(6))]
        said = self._bent(self._pick([answer, answer, *names, *demonyms]))
        facts, said_facts = self._facts()
        evidences, entities, said_evidence, lines = self._evidences()
        gold = {
            "_id": f"q{self._number}",
            "question": f"Question {self._number}?",
            "answer": answer,
            "answer_id": "A1",
            "type": "bridge",
            "supporting_facts": facts,
            "context": [["Title", ["One.", " Two."]]],
            "evidences": evidences,
            "evidences_id": entities,
        }
        if names or self._one_in(2):
            lines = [{"Q_id": "A1", "aliases": names, "demonyms": demonyms}, *lines]
        support = [place for place in range(6) if self._one_in(3)]
        musique = {
            "id": f"2hop__{self._number}",
            "question": f"Question {self._number}?",
            "answer": answer,
            "answer_aliases": names,
            "answerable": True,
            "question_decomposition": [],
            "paragraphs": [
                {
                    "idx": place,
                    "title": "T",
                    "paragraph_text": f"Text {place}.",
                    "is_supporting": place in support,
                }
                for place in range(6)
            ],
        }
        paragraphs = [place for place in range(6) if self._rng.below(10) < (8 if place in support else 2)]
        if paragraphs and self._one_in(8):
            paragraphs.append(paragraphs[0])
        return QAPair(gold, lines or [_NOBODY], musique, said, said_facts, said_evidence, paragraphs)

    def _answer(self) -> str:
        kind = self._rng.below(20)
        if kind < 3:
            return str(self._pick(CLOSED))
        if kind == 3:
            return str(self._pick(("", "the", "A.", "?", " ")))
        words = [self._pick(WORDS) for _ in range(1 + self._rng.below(5))]
        if self._one_in(3):
            words.insert(self._rng.below(len(words) + 1), self._pick(ARTICLES))
        if self._one_in(12):
            words.insert(self._rng.below(len(words) + 1), self._pick(CLOSED))
        return " ".join(words)

    def _bent(self, text: str) -> str:
        """Return an answer that is much like ``text``, or not at all."""
        if self._one_in(8):
            return self._answer()
        words = text.split()
        for _ in range(self._rng.below(4)):
            self._bend(words)
        bent = "".join(word + self._pick(BLANKS) for word in words)
        return bent if self._one_in(4) else bent.strip()

    def _bend(self, words: list[str]) -> None:
        place = self._rng.below(len(words) + 1)
        kind = self._rng.below(8)
        if kind == 0:
            words.insert(place, self._pick(ARTICLES))
        elif kind == 1:
            words.insert(place, self._pick(WORDS))
        elif not words:
            words.append(self._pick((*CLOSED, *MARKS)))
        else:
            place %= len(words)
            word = words[place]
            changed = {
                2: [],
                3: [word, word],
                4: [word.upper()],
                5: [word.lower()],
                6: [word + self._pick(MARKS)],
                7: [self._pick(MARKS) + word],
            }
            words[place : place + 1] = changed[kind]
            if self._one_in(5):
                words.reverse()

    def _facts(self) -> tuple[list[list[Any]], list[list[Any]]]:
        titles = [self._pick(("Alba", "alba", "Bern (town)", "Čapek", "ČAPEK", "The Vale")) for _ in range(6)]
        gold: list[list[Any]] = [[title, self._rng.below(3)] for title in titles[: self._rng.below(4)]]
        said = [fact.copy() for fact in gold if not self._one_in(4)]
        said += [[title, self._rng.below(3)] for title in titles[4 : 4 + self._rng.below(3)]]
        if said and self._one_in(6):
            said.append([said[0][0].upper(), said[0][1]])
        return gold, said

    def _evidences(
        self,
    ) -> tuple[list[list[str]], list[list[str]], list[list[str]], list[dict[str, Any]]]:
        """Return triples, their ids, what is said of them, and names of the entities."""
        triples = [[self._answer(), self._pick(RELATIONS), self._answer()] for _ in range(self._rng.below(4))]
        entities: list[list[str]] = []
        lines: list[dict[str, Any]] = []
        if not self._one_in(4):
            entities = [[f"S{i}", triple[1], f"O{i}"] for i, triple in enumerate(triples)]
            for entity in [each for triple in entities for each in (triple[0], triple[2])]:
                if self._one_in(2):
                    names = [self._answer() for _ in range(self._rng.below(3))]
                    lines.append({"Q_id": entity, "aliases": names, "demonyms": []})
        said = []
        for place, (subject, relation, target) in enumerate(triples):
            known: dict[str, list[str]] = {line["Q_id"]: line["aliases"] for line in lines}
            names = [target, target, *known.get(f"O{place}", ())]
            for _ in range(1 + self._one_in(5)):
                said.append([self._light(subject), self._light(relation), self._light(self._pick(names))])
        if self._one_in(3):
            said.append([self._answer(), self._pick(RELATIONS), self._answer()])
        return triples, entities, [triple for triple in said if not self._one_in(5)], lines

    def _light(self, text: str) -> str:
        return str(self._pick((text, text, text.lower(), text.upper(), f"{text}.", f"the {text}")))

    def _one_in(self, chance: int) -> bool:
        return self._rng.below(chance) == 0


_NOBODY = {"Q_id": "N0", "aliases": ["nobody"], "demonyms": []}
"""The file of names is never empty."""
