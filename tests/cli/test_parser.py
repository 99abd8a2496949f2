import pytest

from agentgym.cli.parser import parse_options
from agentgym.errors import UsageError


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("boxes=2", 2),
        ("slip=0.5", 0.5),
        ("flag=true", True),
        ("flag=false", False),
        ("size=[7, 7]", [7, 7]),
        ("reward=sparse", "sparse"),
        ("rewards=gym-cards", "gym-cards"),
        ("path=a/b.txt", "a/b.txt"),
        ("path=/models/a.txt", "/models/a.txt"),
        ("path=../a", "../a"),
        ("model=model:/models/pasa@v2", "model:/models/pasa@v2"),
        ("path='/tmp/a b'", "/tmp/a b"),
        ('text="x=y"', "x=y"),
        ("table={a = 1}", {"a": 1}),
    ],
)
def test_values_are_toml_and_words_need_no_quotes(pair, value):
    (parsed,) = parse_options([pair]).values()
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["boxes"], "options are key=value, got 'boxes'"),
        (["=2"], "options are key=value"),
        (["a b=2"], "options are key=value"),
        (["a=1", "a=2"], "option 'a' comes twice"),
        (["a="], "the value of option 'a' is not TOML: ''"),
        (["a=1 2"], "write texts as 'a=\"...\"'"),
        (["a=1\nb=2"], "is not TOML"),
        (["split=test"], "option 'split' has its own flag: use --split"),
    ],
)
def test_bad_options(pairs, message):
    with pytest.raises(UsageError, match=message):
        parse_options(pairs, {"split": "--split"})
