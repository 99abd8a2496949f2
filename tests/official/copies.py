"""Small copies of every official file, in the layout that its publisher offers it in.

Their names, wrappers and fields are those of the publishers' own loaders: alfworld's alfworld-download,
alfworld-generate and patch_tw-pddl.py, WebShop's engine.py and goal.py, hotpot's README and prepro.py,
2wikimultihop's README and 2wikimultihop_evaluate_v1.1.py, musique's raw_data_to_official_format.py and
download_data.sh, FlashRAG's dataset.py, Search-R1's qa_search_train_merge.py and download.py, pasa's README.
None of this project's importers was asked. The records are real ones, cut from the data directory.
"""

import io
import json
import re
import tarfile
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from importlib import import_module
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

from tests.official import forms
from tests.official.forms import Record
from tests.official.packing import tarred, zipped

BOXOBAN_COMMIT = "78011d8c86ad423bfb2e1005012393b4c3c24409"
WIKI_18_MEMBER = "data00/jiajie_jin/flashrag_indexes/wiki_dpr_100w/wiki_dump.jsonl"
SPLITS = ("train", "valid_seen", "valid_unseen", "valid_train")
"""Folders of ALFWorld's games."""
E5_WIDTH = 768
"""Numbers of a vector of e5-base-v2."""

HELP_ACTION = """(:action help
    :parameters (?a - agent)
    :precondition
        ()
    :effect
        (and
            (checked ?a)
        )
)
"""
"""Action that newer generations of ALFWorld's games have, as alfworld's domain states it."""


class Copies:
    """Copies made from one data directory.

    Args:
        data: the data directory, with samples of the official data.
        questions: records of each set of questions.
        games: of each of ``splits`` of ALFWorld; None for all.
        products: of WebShop's small set; None for all.
        splits: of ALFWorld.
    """

    def __init__(
        self,
        data: Path,
        *,
        questions: int = 4,
        games: int | None = 2,
        products: int | None = 12,
        splits: Sequence[str] = SPLITS,
    ):
        self.data, self.questions, self.games, self.products = data, questions, games, products
        self.splits = splits
        self._made: dict[str, bytes] = {}

    def of(self, url: str) -> bytes:
        """Return the copy of the file that an official address names; KeyError where there is none."""
        parts = urlsplit(url)
        place = f"{parts.hostname}{parts.path}?{parts.query}"
        for pattern, make in MAKERS:
            if found := re.search(pattern, place):
                key = f"{pattern} {found.groups()}"
                if key not in self._made:
                    self._made[key] = make(self, *found.groups())
                return self._made[key]
        raise KeyError(f"no copy of {url}")

    # ---- ALFWorld --------------------------------------------------------------------------------------

    def alfworld(self, generation: str) -> bytes:
        """json_2.1.N_tw-pddl.zip: games alone, below json_2.1.1/ in every generation.

        The folder keeps its name since the games belong beside the recordings of json_2.1.1_json.zip, and
        alfworld's configuration names it.
        """
        files = {}
        for name, game in self._games():
            newer = {"2": self._patched, "3": self._generated}.get(generation, lambda same: same)
            files[f"json_2.1.1/{name}/game.tw-pddl"] = json.dumps(newer(game)).encode()
        return zipped(files)

    def alfworld_recordings(self) -> bytes:
        """json_2.1.1_json.zip: the recordings of the same trials."""
        return zipped(
            {f"json_2.1.1/{name}/traj_data.json": text for name, text in self._files("traj_data.json")}
        )

    def alfworld_problems(self) -> bytes:
        """json_2.1.1_pddl.zip: the problems of the same trials."""
        found = self._files("initial_state.pddl")
        return zipped({f"json_2.1.1/{name}/initial_state.pddl": text for name, text in found})

    def _games(self) -> Iterable[tuple[str, Record]]:
        for name, text in self._files("game.tw-pddl"):
            yield name, json.loads(text)

    def _files(self, wanted: str) -> Iterable[tuple[str, bytes]]:
        for split in self.splits:
            archive = self.data / "alfworld" / f"json_2.1.1_{split}.tar.xz"
            with tarfile.open(archive, "r|xz") as opened:
                found = (item for item in opened if item.name.endswith(f"/{wanted}"))
                for item in islice(found, self.games):
                    content = opened.extractfile(item)
                    assert content is not None
                    yield item.name.rsplit("/", 1)[0], content.read()

    def _patched(self, game: Record) -> Record:
        """2.1.2 as alfworld's patch_tw-pddl.py makes it of 2.1.1."""
        before, after = game["pddl_domain"].rsplit(")", 1)
        grammar = game["grammar"].replace("You arrive at {lend.name}.", "You arrive at {r.name}.")
        grammar = grammar.replace("put {o} in/on {r}", "move {o} to {r}")
        grammar = grammar.replace(
            "You put the {o.name} in/on the {r.name}.", "You move the {o.name} to the {r.name}."
        )
        helped = re.search(r"^action help \{.*?^\}\n", self._logic("alfred.twl2"), re.M | re.S)
        assert helped is not None
        return {
            **game,
            "pddl_domain": f"{before}{HELP_ACTION}){after}",
            "grammar": f"{grammar}\n{helped[0]}",
        }

    def _generated(self, game: Record) -> Record:
        """2.1.3 as alfworld-generate makes it: the newer domain and grammar, and the task's words in it."""
        task = re.search(r'"task": \[\s*\{\s*"rhs": "Your task is to: (.*?)"', game["grammar"])
        assert task is not None
        return {
            "pddl_domain": self._logic("alfred.pddl"),
            "grammar": self._logic("alfred.twl2").replace("UNKNOWN GOAL", task[1].rstrip(".")),
            "pddl_problem": game["pddl_problem"],
            "solvable": True,
            "walkthrough": ["look"],
        }

    def _logic(self, name: str) -> str:
        return (self.data / "alfworld" / "logic" / name).read_text(encoding="utf-8")

    # ---- WebShop ---------------------------------------------------------------------------------------

    @cached_property
    def _catalogue(self) -> list[Record]:
        lines = self._lines("webshop/products_1000.jsonl", self.products)
        return [forms.scraped(line["product"]) for line in lines]

    def webshop_products(self) -> bytes:
        """items_shuffle*.json: an array of scraped products, before WebShop's loader adds to them."""
        return json.dumps(self._catalogue).encode()

    def webshop_attributes(self) -> bytes:
        """items_ins_v2*.json: attributes and a synthetic instruction by product."""
        if self.products is None:
            return (self.data / "webshop" / "items_ins_v2_1000.json").read_bytes()
        entries = json.loads((self.data / "webshop" / "items_ins_v2_1000.json").read_text(encoding="utf-8"))
        known = {product["asin"] for product in self._catalogue}
        return json.dumps({asin: entry for asin, entry in entries.items() if asin in known}).encode()

    def webshop_people(self) -> bytes:
        """items_human_ins.json: what people ask for, by product."""
        texts = iter(json.loads((self.data / "webshop" / "human_goals.json").read_text(encoding="utf-8")))
        entries = json.loads(self.webshop_attributes())
        asked = [asin for asin, entry in entries.items() if entry.get("attributes")]
        return json.dumps(
            {
                asin: [
                    {
                        "asin": asin,
                        "instruction": next(texts),
                        "attributes": entries[asin]["attributes"],
                        "options": [],
                        "instruction_attributes": entries[asin]["attributes"][:1],
                        "instruction_options": [],
                        "assignment_id": f"A{number}",
                        "worker_id": f"W{number}",
                    }
                ]
                for number, asin in enumerate(asked[:40])
            }
        ).encode()

    def webshop_wishes(self) -> bytes:
        """human_goals.json of the baseline models, whole."""
        return (self.data / "webshop" / "human_goals.json").read_bytes()

    # ---- questions -------------------------------------------------------------------------------------

    def hotpotqa(self, part: str) -> bytes:
        """hotpot_*.json: an array; of the full-wiki file some have no paragraphs."""
        chosen = self._asked("hotpotqa")
        cut = len(chosen) // 2
        records = [
            forms.hotpot(record) for record in (chosen[:cut] if part == "train_v1.1" else chosen[cut:])
        ]
        if part == "dev_fullwiki_v1":
            records[-1]["context"] = []
        return json.dumps(records).encode()

    def hotpotqa_fullwiki(self) -> bytes:
        """BEIR's hotpotqa.zip."""
        passages = self._lines("hotpotqa/corpus.jsonl", self.questions * 3)
        corpus = [
            {"_id": str(12 + each["id"]), "title": each["title"], "text": each["text"], "metadata": {}}
            for each in passages
        ]
        queries = [
            {"_id": each["id"], "text": each["question"], "metadata": {}} for each in self._asked("hotpotqa")
        ]
        qrels = "query-id\tcorpus-id\tscore\n" + "".join(f"{each['_id']}\t12\t1\n" for each in queries)
        return zipped(
            {
                "hotpotqa/corpus.jsonl": forms.jsonl(corpus),
                "hotpotqa/queries.jsonl": forms.jsonl(queries),
                "hotpotqa/qrels/train.tsv": qrels.encode(),
                "hotpotqa/qrels/dev.tsv": qrels.encode(),
                "hotpotqa/qrels/test.tsv": qrels.encode(),
            }
        )

    def twowiki(self) -> bytes:
        """data_ids_april7.zip: one folder; test.json has neither answers nor facts."""
        chosen = [forms.twowiki(record) for record in self._asked("twowiki")]
        cut = len(chosen) // 2
        hidden = ("answer", "answer_id", "supporting_facts", "evidences", "evidences_id")
        test = [{key: value for key, value in each.items() if key not in hidden} for each in chosen[cut:]]
        aliases = [
            {"Q_id": f"Q{number}", "aliases": [f"{each['answer']} the other"], "demonyms": []}
            for number, each in enumerate(chosen)
        ]
        return zipped(
            {
                "data_ids_april7/.DS_Store": b"\x00\x00\x00\x01Bud1",
                "data_ids_april7/train.json": json.dumps(chosen[:cut]).encode(),
                "data_ids_april7/dev.json": json.dumps(chosen[cut:]).encode(),
                "data_ids_april7/test.json": json.dumps(test).encode(),
                "data_ids_april7/id_aliases.json": forms.jsonl(aliases),
            }
        )

    def twowiki_fullwiki(self) -> bytes:
        """para_with_hyperlink.zip: one member; some articles have no sentences."""
        lines = [
            {
                "id": str(each["id"] + 1_000),
                "title": each["title"],
                "sentences": forms.sentences(each["text"]) if each["id"] != 2 else [],
                "mentions": [
                    {"id": 0, "start": 0, "end": 3, "ref_url": "A_B", "ref_ids": ["7"], "sent_idx": 0}
                ],
            }
            for each in self._lines("twowiki/corpus.jsonl", self.questions * 3)
        ]
        return zipped({"para_with_hyperlink.jsonl": forms.jsonl(lines)}, folders=False)

    def musique_archive(self) -> bytes:
        """musique_v1.0.zip: data/ beside what Apple's archiver adds."""
        files = {
            f"data/musique_{kind}_v1.0_{split}.jsonl": self.musique(kind, split)
            for kind in ("ans", "full")
            for split in ("train", "dev", "test")
        }
        singles = {"natural_questions": [], "squad": [{"id": 7, "question": "What is it?"}]}
        files["data/dev_test_singlehop_questions_v1.0.json"] = json.dumps(singles).encode()
        return zipped(files, apple=True)

    def musique(self, kind: str, split: str) -> bytes:
        """musique_KIND_v1.0_SPLIT.jsonl; the full kind has an unanswerable twin of each question."""
        chosen = [forms.musique(record) for record in self._asked("musique")]
        cut = len(chosen) // 2
        chosen = chosen[:cut] if split == "train" else chosen[cut:]
        if kind == "full":
            chosen = [each for record in chosen for each in (record, forms.unanswerable(record))]
        if split == "test":
            hidden = ("answer", "answer_aliases", "answerable", "question_decomposition")
            chosen = [{key: value for key, value in each.items() if key not in hidden} for each in chosen]
            for record in chosen:
                record["paragraphs"] = [
                    {key: value for key, value in each.items() if key != "is_supporting"}
                    for each in record["paragraphs"]
                ]
        return forms.jsonl(chosen)

    def flashrag(self, name: str, split: str) -> bytes:
        """SET/SPLIT.jsonl of FlashRAG's sets of questions."""
        asked = self._asked(
            "twowiki" if name.startswith("2wiki") else "musique" if name == "musique" else "hotpotqa"
        )
        lines = [
            {"id": f"{split}_{number}", "question": each["question"], "golden_answers": [each["answer"]]}
            for number, each in enumerate(asked)
        ]
        if name in ("hotpotqa", "2wikimultihopqa", "musique"):
            for line, each in zip(lines, asked, strict=True):
                line["metadata"] = {"type": each.get("type"), "level": each.get("level")}
        return forms.jsonl(lines)

    def search_r1(self, split: str) -> bytes:
        """Parquet of Search-R1's prompts, as its merging script writes them."""
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        rows = []
        for number, each in enumerate(self._asked("hotpotqa")):
            name = "nq" if number % 2 else "hotpotqa"
            question = each["question"].strip()
            question = question if question.endswith("?") else f"{question}?"
            prompt = f"Answer the given question. You must conduct reasoning first. Question: {question}\n"
            target = {"target": [each["answer"]]}
            rows.append(
                {
                    "id": f"{split}_{number}",
                    "question": question,
                    "golden_answers": [each["answer"]],
                    "data_source": name,
                    "prompt": [{"role": "user", "content": prompt}],
                    "ability": "fact-reasoning",
                    "reward_model": {"style": "rule", "ground_truth": target},
                    "extra_info": {"split": split, "index": number},
                }
            )
        out = io.BytesIO()
        parquet.write_table(arrow.Table.from_pylist(rows), out)
        return out.getvalue()

    # ---- wiki-18 and its index -------------------------------------------------------------------------

    def wiki_18(self) -> bytes:
        """wiki-18.jsonl.gz, which is a tar of one member."""
        lines = [
            {"id": str(number), "contents": f'"{each["title"]}"\n{each["text"]}'}
            for number, each in enumerate(self._passages)
        ]
        return tarred({WIKI_18_MEMBER: forms.jsonl(lines)})

    def e5_index(self) -> bytes:
        """e5_Flat.index: faiss' flat index of inner products, one vector a passage."""
        import numpy as np

        count = len(self._passages)
        vectors = np.random.default_rng(18).normal(size=(count, E5_WIDTH)).astype("<f4")
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        head = b"IxFI" + E5_WIDTH.to_bytes(4, "little") + count.to_bytes(8, "little")
        head += 2 * (1 << 20).to_bytes(8, "little") + b"\x01" + (0).to_bytes(4, "little")
        return head + (count * E5_WIDTH).to_bytes(8, "little") + vectors.tobytes()

    def e5_part(self, part: str) -> bytes:
        """part_aa and part_ab, as `split` cuts the index: the first is the larger one."""
        whole = self.e5_index()
        cut = 2 * len(whole) // 3
        return whole[:cut] if part == "aa" else whole[cut:]

    def lucene(self, name: str) -> bytes:
        """Bytes of a file of Lucene's index, which only Lucene reads: the name, over and over."""
        return name.encode() * 40

    @cached_property
    def _passages(self) -> list[Record]:
        return self._lines("hotpotqa/corpus.jsonl", self.questions * 3)

    # ---- the rest --------------------------------------------------------------------------------------

    def sotopia(self, name: str) -> bytes:
        """Files of sotopia-space and AMPO, whole."""
        ours = {
            "env_agent_combos.json": "ampo_env_agent_combos.json",
            "sotopia_hard.json": "ampo_sotopia_hard_indices.json",
        }
        return (self.data / "sotopia" / ours.get(name, name)).read_bytes()

    def boxoban(self) -> bytes:
        """GitHub's archive of a commit: one folder named after it, with levels and the files beside them."""
        top = f"boxoban-levels-{BOXOBAN_COMMIT}"
        beside = ("CONTRIBUTING.md", "LICENSE", "LICENSE.txt", "README.md")
        files = {f"{top}/{name}": f"{name}\n".encode() for name in beside}
        folder = self.data / "sokoban"
        for path in sorted(folder.rglob("*.txt")):
            files[f"{top}/{path.relative_to(folder).as_posix()}"] = path.read_bytes()
        hard = f"{top}/hard/000.txt"
        files[hard] = (folder / "medium" / "train" / "000.txt").read_bytes()
        return tarred(files, comment=BOXOBAN_COMMIT)

    def papersearch(self, folder: str, split: str) -> bytes:
        """AutoScholarQuery/SPLIT.jsonl and RealScholarQuery/test.jsonl."""
        ours = "dev" if split == "dev" else "test"
        lines = self._lines(f"papersearch/AutoScholarQuery_{ours}.jsonl", self.questions)
        for number, line in enumerate(lines):
            line["qid"] = f"{folder}_{split}_{number}"
        return forms.jsonl(lines)

    def _asked(self, source: str) -> list[Record]:
        return self._lines(f"{source}/questions.jsonl", self.questions)

    def _lines(self, path: str, count: int | None) -> list[Record]:
        with (self.data / path).open(encoding="utf-8") as file:
            return [json.loads(line) for line in islice(file, count)]


MAKERS: tuple[tuple[str, Callable[..., bytes]], ...] = (
    (r"^github\.com/alfworld/.*/json_2\.1\.(\d)_tw-pddl\.zip", Copies.alfworld),
    (r"^github\.com/alfworld/.*/json_2\.1\.1_json\.zip", Copies.alfworld_recordings),
    (r"^github\.com/alfworld/.*/json_2\.1\.1_pddl\.zip", Copies.alfworld_problems),
    (r"/items_shuffle(?:_1000)?\.json", Copies.webshop_products),
    (r"/items_ins_v2(?:_1000)?\.json", Copies.webshop_attributes),
    (r"/items_human_ins\.json", Copies.webshop_people),
    (r"/human_goals\.json", Copies.webshop_wishes),
    (r"/hotpot_train_v1(?:\.1)?\.json()", lambda copies, _: copies.hotpotqa("train_v1.1")),
    (r"/hotpot_(dev_distractor_v1|dev_fullwiki_v1)\.json", Copies.hotpotqa),
    (r"/BEIR/datasets/hotpotqa\.zip", Copies.hotpotqa_fullwiki),
    (r"/data_ids_april7\.zip", Copies.twowiki),
    (r"/para_with_hyperlink\.zip", Copies.twowiki_fullwiki),
    (r"id=1tGdADlNjWFaHLeZZGShh2IRcpO6Lv24h", Copies.musique_archive),
    (r"/musique_(ans|full)_v1\.0_(train|dev|test)\.jsonl", Copies.musique),
    (r"/FlashRAG_datasets/resolve/\w+/(\w+)/(\w+)\.jsonl", Copies.flashrag),
    (r"/nq_hotpotqa_train/resolve/\w+/(\w+)\.parquet", Copies.search_r1),
    (r"/wiki-18-corpus/.*/wiki-18\.jsonl\.gz", Copies.wiki_18),
    (r"/wiki-18-e5-index/.*/part_(aa|ab)", Copies.e5_part),
    (r"/wiki-18-bm25-index/.*/bm25/(\w+(?:\.\w+)?)", Copies.lucene),
    (r"/profiles/(\w+\.jsonl)", Copies.sotopia),
    (r"/sotopia_data/(\w+\.json)", Copies.sotopia),
    (r"/boxoban-levels/tar\.gz/", Copies.boxoban),
    (r"/pasa-dataset/.*/(AutoScholarQuery|RealScholarQuery)/(\w+)\.jsonl", Copies.papersearch),
)
"""Makers of copies, by a pattern of the host, path and query of an official address."""
