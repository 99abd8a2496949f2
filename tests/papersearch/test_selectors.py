"""Who says how well a paper answers a query: labels, words, vectors, a model."""

import json
from typing import ClassVar

import numpy as np
import pytest

from agentgym import UsageError
from agentgym.checking.evidence import first_difference
from agentgym.core.queries import UnansweredError
from agentgym.envs.papersearch.data.fields import last_day
from agentgym.envs.papersearch.engine.decision import TRUE, DecisionSelector, LocalJudge
from agentgym.envs.papersearch.engine.pages import _first_day
from agentgym.envs.papersearch.engine.search import _exact
from agentgym.envs.papersearch.engine.selectors import GoldSelector, LexicalSelector
from agentgym.envs.papersearch.engine.vectors import EncoderSelector
from agentgym.envs.papersearch.env import PaperSearchEnv, PaperSearchVectorEnv
from tests.papersearch.small import NUMBER, PAPERS, TOPIC, ScriptedSelector, small_world
from tests.papersearch.test_data import write_lines

CORPUS = small_world().corpus


def asked(selector, ids="abcde", topic=TOPIC):
    return [selector.question(topic, NUMBER[id]) for id in ids]


def test_gold_knows_the_labels_whatever_the_version():
    selector = GoldSelector(CORPUS)
    assert selector.answer(asked(selector)) == [1.0, 1.0, 1.0, 0.0, 0.0]
    assert selector.kind.standing == "exact"
    other = TOPIC._replace(gold=("e",))
    assert selector.answer(asked(selector, topic=other)) == [0.0, 0.0, 0.0, 0.0, 1.0]


def test_lexical_counts_the_terms_that_say_something():
    selector = LexicalSelector(CORPUS)
    query = "Which papers study the storage of apples in a cellar?"  # store, appl, cellar
    assert selector.answer(asked(selector, "abcd", TOPIC._replace(query=query))) == [1 / 3, 1.0, 2 / 3, 0.0]
    assert selector.answer([("Could you find me some papers?", 0), ("", 0), ("字", 0)]) == [0.0, 0.0, 0.0]
    assert selector.kind.standing == "exact"


def test_an_answer_is_json_and_what_was_recorded_is_compared():
    for selector in (GoldSelector(CORPUS), LexicalSelector(CORPUS), EncoderSelector(CORPUS, LetterEncoder())):
        questions = json.loads(json.dumps(asked(selector)))
        answers = selector.answer(questions)
        assert json.loads(json.dumps(answers)) == answers
        assert all(map(selector.agrees, answers, answers))
        assert not selector.agrees(answers[0] - 0.25, answers[0])
        assert not selector.agrees("1.0", answers[0])


class LetterEncoder:
    """Counts letters."""

    text_parameters: ClassVar = {"encoder": "letters"}
    parameters: ClassVar = {"dimensions": 8}
    calls = 0

    def encode_queries(self, texts):
        LetterEncoder.calls += 1
        return np.array([[text.lower().count(letter) for letter in "aeioulpr"] for text in texts], np.float32)

    encode_passages = encode_queries


def test_vectors_are_compared_by_their_cosine_and_made_once():
    selector = EncoderSelector(CORPUS, LetterEncoder())
    questions = asked(selector)
    LetterEncoder.calls = 0
    answers = selector.answer(questions)
    assert LetterEncoder.calls == 2
    assert [selector.answer([question])[0] for question in questions] == answers
    assert LetterEncoder.calls == 2
    assert all(0 < answer <= 1 for answer in answers)
    assert selector.kind.standing == "recomputable"


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_vectors_that_are_none_are_no_answer(number):
    encoder = LetterEncoder()
    encoder.encode_passages = lambda texts: np.full((len(texts), 8), number)
    selector = EncoderSelector(CORPUS, encoder)
    with pytest.raises(UnansweredError, match="finite"):
        selector.answer(asked(selector))
    encoder.encode_passages = lambda texts: np.zeros((len(texts), 8))
    assert selector.answer(asked(selector)) == [0.0] * 5


def test_a_selector_is_named_by_reference_or_given():
    assert PaperSearchEnv(selector="tests.papersearch.test_selectors:half").selector.kind.name == "half"
    world = small_world()
    env = PaperSearchEnv(dataset=world, selector=EncoderSelector(world.corpus, LetterEncoder()))
    env.reset(seed=0)
    assert env.step("search[pear]")[1] > 0
    assert env.tasks.manifest["selector"].startswith("selector encoder ")


def test_vectors_are_made_once_and_only_those_of_the_corpus_are_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path))
    monkeypatch.setattr("agentgym.envs.papersearch.engine.search.encoder_digest", lambda encoder: "letters")
    index = _exact(CORPUS, LetterEncoder())
    calls = LetterEncoder.calls
    assert len(_exact(CORPUS, LetterEncoder())) == len(index) == len(CORPUS)
    assert LetterEncoder.calls == calls
    (manifest,) = tmp_path.glob("papersearch/exact-letters-*/manifest.json")
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"corpus": "papersearch 0"}))
    with pytest.raises(UsageError, match=r"has corpus .*delete it and build it again"):
        _exact(CORPUS, LetterEncoder())


@pytest.mark.parametrize("date", [20150000, 20150300, 20150304, 19991200])
def test_a_cut_off_is_told_as_it_was_given(date):
    assert _first_day(last_day(date)) == date


@pytest.mark.assets
@pytest.mark.parametrize("search", ["exact", "hybrid"])
def test_a_search_by_vectors(search, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path))
    records = [
        {"id": paper.id, "title": paper.title, "abstract": paper.abstract, "year": 2001} for paper in PAPERS
    ]
    write_lines(tmp_path / "papers.jsonl", records)
    asked = {"question": "How is fruit stored?", "answer_arxiv_id": ["b", "c"]}
    write_lines(tmp_path / "AutoScholarQuery_test.jsonl", [asked])
    env = PaperSearchEnv(dataset=str(tmp_path), split="test", search=search, selector="encoder", k=2)
    env.reset(seed=0)
    env.step("search[keeping fruit in a cellar]")
    assert {env.world.corpus.paper(number).id for number in env.pool.scores} == {"b", "c"}
    assert [env.query_backends[name].kind.standing for name in ("search", "selector")] == ["recomputable"] * 2
    again = PaperSearchEnv(dataset=str(tmp_path), split="test", search=search, selector="encoder", k=2)
    assert again.data_key == env.data_key != PaperSearchEnv(dataset=str(tmp_path), split="test", k=2).data_key


def half(corpus):
    selector = ScriptedSelector({})
    selector.kind = type(selector.kind)("half")
    return selector


# ---- a model asked for "True" ------------------------------------------------------------------------

PROMPT = "query {query} title {title} abstract {abstract} Decision:"


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    """Return the folder of a random model of two layers, with a tokenizer of a few words."""
    import tokenizers
    import torch
    import transformers

    folder = tmp_path_factory.mktemp("model")
    vocabulary = ["?", "True", "False", "Decision:", "query", "title", "apple", "storage"]
    words = {word: number for number, word in enumerate(vocabulary)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="?"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="?").save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            vocab_size=len(words), hidden_size=16, intermediate_size=32, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=2, bos_token_id=None, eos_token_id=None,
        )  # fmt: skip
        transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def judge(model_folder):
    return LocalJudge(model_folder)


def test_a_model_s_score_is_the_probability_of_true(judge):
    import torch

    selector = DecisionSelector(CORPUS, judge, PROMPT)
    (answer,) = selector.answer(asked(selector, "b"))
    text = PROMPT.format(query=TOPIC.query, title="Apple storage", abstract="Cellars keep fruit.")
    tokens = judge._tokenizer(text)["input_ids"]
    with torch.inference_mode():
        logits = judge._model(input_ids=torch.tensor([tokens])).logits[0, -1]
    assert TRUE.strip() == judge._tokenizer.decode([1])
    assert answer == pytest.approx(float(torch.softmax(logits, -1)[1]), abs=1e-6)
    assert 0 < answer < 1


def test_a_model_s_answer_does_not_depend_on_what_is_asked_beside(judge):
    selector = DecisionSelector(CORPUS, judge, PROMPT)
    questions = asked(selector) * 2
    answers = selector.answer(questions)
    assert answers[:5] == answers[5:]
    assert [selector.answer([question])[0] for question in questions] == answers  # as they were


@pytest.fixture(scope="module")
def prompts():
    """Return 60 prompts of 2 to 400 words."""
    rng = np.random.default_rng(0)
    words = ["query", "title", "apple", "storage", "other"]
    return [" ".join(rng.choice(words, size)) + " Decision:" for size in rng.integers(2, 400, 60)]


def test_batched_scores_are_those_of_one_prompt_at_a_time(model_folder, prompts):
    alone = LocalJudge(model_folder, batch_tokens=1)
    expected = alone.probabilities(prompts)
    for tokens in (800, 5_000, 10**9):
        batched, sizes = LocalJudge(model_folder, batch_tokens=tokens), []
        passed = batched._pass

        def counting(rows, passed=passed, sizes=sizes):
            sizes.append((len(rows), max(map(len, rows))))
            return passed(rows)

        batched._pass = counting
        found = batched.probabilities(prompts)
        np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)
        assert max(rows for rows, _ in sizes) > 1
        assert all(rows == 1 or rows * longest <= tokens for rows, longest in sizes)
        assert sum(rows for rows, _ in sizes) == len(prompts)
        assert batched.probabilities(prompts[::-1]) == found[::-1]
        assert sum(rows for rows, _ in sizes) == len(prompts)  # none was read again
    assert np.ptp(expected) > 1e-3


@pytest.mark.parametrize("left_out", [(), ("attention_mask", "position_ids"), ("position_ids",)])
def test_padding_has_no_weight_and_no_position(model_folder, prompts, tmp_path, left_out):
    """A model of absolute positions; without mask or positions its scores in a batch are others."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(model_folder)
    tokenizer.save_pretrained(tmp_path)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_positions=512, n_embd=16, n_layer=2, n_head=2, initializer_range=0.3,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    expected = LocalJudge(tmp_path, batch_tokens=1).probabilities(prompts)
    judge = LocalJudge(tmp_path)
    judge._takes -= set(left_out)
    found = np.array(judge.probabilities(prompts))
    assert (np.abs(found - expected).max() > 1e-3) == bool(left_out)
    assert np.abs(found - expected).max() < 1e-5 or left_out


def test_a_prompt_of_ones_own_comes_by_file(model_folder, tmp_path):
    file = tmp_path / "prompt.txt"
    file.write_text("query {query} title {title} {abstract} Decision:\n\n")
    options = {"dataset": small_world(), "selector": f"model:{model_folder}"}
    own = PaperSearchEnv(**options, selector_prompt=str(file))
    assert own.selector._prompt.endswith("{abstract} Decision:")
    plain = PaperSearchEnv(**options)
    assert own.selector.kind.name != plain.selector.kind.name  # another prompt is another selector
    assert own.tasks.manifest["selector"] == own.selector.kind.name
    envs = PaperSearchVectorEnv(2, **options, selector_prompt=str(file), autoreset_mode="Disabled")
    assert envs.prototype.selector.kind == own.selector.kind


@pytest.mark.parametrize(
    ("options", "content", "message"),
    [
        ({"selector": "gold"}, b"", "the selector is 'gold': set selector=model:PATH"),
        ({}, None, r"cannot read .*prompt.txt: No such file or directory; name the file"),
        ({}, b"\xff", "is not UTF-8: save the selector's prompt as text"),
        ({}, b"{query} {title}", "has the slots {query}, {title} and {abstract}, and no others"),
    ],
)
def test_a_prompt_s_file_that_is_no_good_is_one_line(model_folder, tmp_path, options, content, message):
    file = tmp_path / "prompt.txt"
    if content is not None:
        file.write_bytes(content)
    settings = {"dataset": small_world(), "selector": f"model:{model_folder}"} | options
    with pytest.raises(UsageError, match=message) as caught:
        PaperSearchEnv(**settings, selector_prompt=str(file))
    assert "\n" not in str(caught.value)


def test_a_model_plays_along_in_every_form(model_folder):
    world = small_world()
    selector = f"model:{model_folder}"
    env = PaperSearchEnv(dataset=world, selector=selector)
    envs = PaperSearchVectorEnv(3, dataset=world, selector=selector, autoreset_mode="Disabled")
    env.reset(seed=0)
    envs.reset(seed=0)
    for action in ("search[apple]\nsearch[pear]", "expand[c]"):
        alone = env.step(action)
        rewards = envs.step([action, "search[", "search[plum]"])[1]
        assert first_difference(float(rewards[0]), alone[1]) is None
    assert env.selector.kind.standing == "recomputable"
    assert env.selector.kind.name.startswith("selector model ")
    assert envs.snapshot(0).state == env.snapshot().state


def test_other_weights_are_another_selector(model_folder, tmp_path):
    import shutil

    shutil.copytree(model_folder, tmp_path, dirs_exist_ok=True)
    (weights,) = tmp_path.glob("*.safetensors")
    before = LocalJudge(tmp_path).name
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(bytes(data))
    assert LocalJudge(tmp_path).name != before == LocalJudge(model_folder).name


def test_a_model_that_cannot_be_loaded_is_one_line(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UsageError, match="no model can be loaded from") as caught:
        LocalJudge(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("prompt", ["", "{query} {title}", PROMPT + " {more}", PROMPT + " {", "{} {} {}"])
def test_a_prompt_has_its_three_slots(judge, prompt):
    with pytest.raises(UsageError, match="slots"):
        DecisionSelector(CORPUS, judge, prompt)
