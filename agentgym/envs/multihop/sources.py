"""The official question sets: their upstreams, and the files of a copy."""

from agentgym.core.suite_spec import DataSource

HOTPOTQA = DataSource(
    name="hotpotqa",
    folder="hotpotqa",
    about="HotpotQA: two-hop questions over Wikipedia's introductions",
    upstream="https://hotpotqa.github.io (hotpot_train_v1.1.json, hotpot_dev_distractor_v1.json)",
    licence="CC BY-SA 4.0",
    sets={
        "distractor": ("dev", "train"),
        "fullwiki": ("dev",),
        "dev-200": ("dev",),
        "questions": ("dev",),
        "sample": ("dev",),
    },
    expected="hotpot_train_v1.1.json, hotpot_dev_distractor_v1.json, hotpot_dev_fullwiki_v1.json",
    importer="agentgym.envs.multihop.data.importer:HOTPOTQA_IMPORTER",
)

TWOWIKI = DataSource(
    name="twowiki",
    folder="twowiki",
    about="2WikiMultihopQA: two- to four-hop questions with evidence triples",
    upstream="https://github.com/Alab-NII/2wikimultihop (data_ids_april7.zip)",
    licence="none stated for the data; the code Apache-2.0, the articles' text CC BY-SA",
    sets={
        "official": ("dev", "train"),
        "dev-120": ("dev",),
        "sample": ("dev",),
        "sample-distractors": ("dev",),
    },
    expected="data_ids_april7.zip, or its train.json, dev.json, test.json, with id_aliases.json",
    importer="agentgym.envs.multihop.data.importer:TWOWIKI_IMPORTER",
)

MUSIQUE = DataSource(
    name="musique",
    folder="musique",
    about="MuSiQue-Ans: two- to four-hop questions that need every hop",
    upstream="https://github.com/StonyBrookNLP/musique (musique_v1.0.zip)",
    licence="CC BY 4.0",
    sets={"ans": ("dev", "train"), "dev-200": ("dev",), "sample": ("dev",)},
    expected="musique_v1.0.zip, or its musique_ans_v1.0_train.jsonl, musique_ans_v1.0_dev.jsonl",
    importer="agentgym.envs.multihop.data.importer:MUSIQUE_IMPORTER",
)

SEARCHQA = DataSource(
    name="searchqa",
    folder="searchqa",
    about="single- and multi-hop questions with golden answers, as FlashRAG and Search-R1 publish them",
    upstream="https://huggingface.co/datasets/RUC-NLPIR/FlashRAG_datasets, or PeterJinGo/nq_hotpotqa_train",
    licence="as each set's own; FlashRAG's card says CC BY-SA 4.0",
    sets={
        "nq": ("test", "dev", "train"),
        "triviaqa": ("test", "dev", "train"),
        "popqa": ("test",),
        "bamboogle": ("test",),
        "hotpotqa": ("dev", "train"),
        "2wikimultihopqa": ("dev", "train"),
        "musique": ("dev", "train"),
        "nq_hotpotqa_train": ("test", "train"),
    },
    expected="nq/test.jsonl, popqa/test.jsonl or other SET/SPLIT.jsonl, nor train.parquet or test.parquet",
    importer="agentgym.envs.multihop.data.importer:SEARCHQA_IMPORTER",
)

SOURCES = (HOTPOTQA, TWOWIKI, MUSIQUE, SEARCHQA)
