"""Scenarios of others: readers, the importer, splits, and that nothing trained on is evaluated on."""

import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym import MissingDataError, UsageError
from agentgym.data.importing import find_damage, import_data, is_present
from agentgym.envs.sotopia.data import folders
from agentgym.envs.sotopia.data.folders import digests, find_files, open_folder
from agentgym.envs.sotopia.data.profiles import (
    parse_agent,
    parse_combination,
    parse_environment,
    parse_relationship,
)
from agentgym.envs.sotopia.scenarios import Character
from agentgym.envs.sotopia.source import open_tasks
from agentgym.envs.sotopia.sources import SOTOPIA, SOTOPIA_PI
from tests.sotopia.files import (
    AGENTS,
    COMBINATIONS,
    ENVIRONMENTS,
    agent,
    combination,
    environment,
    relationship,
    write_array,
    write_copy,
    write_lines,
)


@pytest.fixture
def upstream(tmp_path):
    """Return a folder with a copy."""
    return write_copy(tmp_path / "upstream")


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Return the data directory, which is empty."""
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def unwatched(done, total):
    assert 0 <= done <= total


def names(scenarios):
    return [scenario.id for scenario in scenarios]


# ---- records ---------------------------------------------------------------------------------------


def test_an_agent_is_read_by_either_of_its_ids():
    expected = Character(
        id="P0",
        first_name="Ilse",
        last_name="Marsh",
        age=30,
        gender="Woman",
        pronouns="She/her",
        occupation="Potter",
        public_info="Public 0.",
        big_five="Openness - Low",
        moral_values=("Care", "Fairness"),
        schwartz_values=("Security",),
        personality_and_values="Personal 0.",
        decision_making_style="Analytical",
        secret="Secret 0",
        mbti="ENTP",
    )
    assert parse_agent(agent(0), "here") == expected
    upstream = {key: value for key, value in agent(0).items() if key != "agent_id"}
    upstream |= {"pk": "P0", "moral_values": "Care, Fairness", "model_id": "", "tag": ""}
    assert parse_agent(upstream, "here") == expected


def test_what_is_unknown_is_left_out():
    bare = parse_agent(
        {"pk": "P9", "first_name": "Nan", "last_name": None, "secret": "nan", "mbti": None}, "here"
    )
    assert (bare.name, bare.age, bare.secret, bare.moral_values) == ("Nan", 0, "", ())
    read = parse_environment(environment(1, age_constraint=None, occupation_constraint=None), "here")
    assert (read.ages, read.occupations) == (None, None)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3),
        ("3", 3),
        ("friend", 3),
        ("RelationshipType.friend", 3),
        ("romantic_relationship", 4),
        (0, 0),
        ("stranger", 0),
    ],
)
def test_a_relationship_is_a_number_or_its_name(value, number):
    assert parse_environment(environment(0, relationship=value), "here").relationship == number


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env_id": None}, "field 'env_id': expected a string, got null"),
        ({"env_id": "two words"}, "field 'env_id': expected an id without blanks"),
        ({"scenario": " "}, "field 'scenario': is empty"),
        ({"scenario": 5}, "field 'scenario': expected a string, got 5"),
        ({"scenario": "x" * 20_001}, "field 'scenario': has 20,001 characters, more than the 20,000"),
        ({"agent_goals": ["one"]}, "field 'agent_goals': expected two texts, one for each side, got 1"),
        ({"agent_goals": "['a', 'b']"}, "field 'agent_goals': expected a list of strings"),
        ({"agent_goals": ["a", ""]}, "field 'agent_goals': is empty"),
        ({"relationship": 6}, "field 'relationship': expected a number from 0 (stranger) to 5"),
        ({"relationship": "freind"}, "(did you mean 'friend'?)"),
        ({"relationship": True}, "field 'relationship'"),
        ({"age_constraint": "[(18, 70)]"}, "field 'age_constraint': expected two ranges"),
        ({"occupation_constraint": "[a, b, c]"}, "field 'occupation_constraint': expected a list for each"),
        ({"codename": "n" * 201}, "field 'codename': has 201 characters"),
        ({"scenario": "half \ud800"}, "field 'scenario': has half of a surrogate pair"),
    ],
)
def test_an_environment_that_is_none_is_refused(changes, message):
    with pytest.raises(UsageError) as caught:
        parse_environment(environment(0, **changes), "f.jsonl:7")
    assert str(caught.value).startswith("f.jsonl:7: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"first_name": ""}, "field 'first_name': is empty"),
        ({"first_name": "Il\u202ese"}, "field 'first_name': expected printable characters"),
        ({"age": "30"}, "field 'age': expected a number from 0 to 200"),
        ({"age": 1000}, "field 'age'"),
        ({"moral_values": [1]}, "field 'moral_values': expected a list of strings"),
        ({"secret": ["x"]}, "field 'secret': expected a string"),
    ],
)
def test_an_agent_that_is_none_is_refused(changes, message):
    with pytest.raises(UsageError) as caught:
        parse_agent(agent(0, **changes), "f.jsonl:7")
    assert message in str(caught.value)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=4), each, max_size=3),
    max_leaves=6,
)


@given(st.data(), st.sampled_from([parse_agent, parse_environment, parse_relationship, parse_combination]))
def test_any_record_is_read_or_refused_in_a_line(data, parse):
    record = {
        parse_agent: agent(0),
        parse_environment: environment(0),
        parse_relationship: relationship(0, 1, "2"),
        parse_combination: combination(0, 0, 0, 1),
    }[parse]
    changed = data.draw(st.dictionaries(st.sampled_from(sorted(record)), JSON_VALUES, max_size=3))
    message = "here"
    try:
        hash(parse({**record, **changed}, "here"))
    except UsageError as error:
        message = str(error)
    assert message.startswith("here")
    assert len(message.splitlines()) == 1


def test_names_stand_on_one_line():
    read = parse_agent(agent(0, first_name=" Il\nse ", last_name="van\t der"), "here")
    assert read.name == "Il se van der"


# ---- folders -----------------------------------------------------------------------------------------


def test_a_copy_is_read_in_the_order_of_its_combinations(upstream):
    folder = open_folder(upstream)
    assert names(folder.scenarios("all")) == ["C0", "C1", "C2", "C3"]
    assert names(folder.scenarios("hard")) == ["C2", "C1"], "numbers count in the other file"
    scenario = folder.scenarios("all")[1]
    assert scenario.text == ENVIRONMENTS[2]["scenario"]
    assert scenario.goals == tuple(ENVIRONMENTS[2]["agent_goals"])
    assert [each.name for each in scenario.characters] == ["Tariq Olin", "Bodo Kern"]
    assert (scenario.relationship, scenario.kind, scenario.source) == (2, "made_up_2", "invented")
    assert open_folder(upstream) is folder
    write_array(upstream / "ampo_sotopia_hard_indices.json", [1])
    assert names(open_folder(upstream).scenarios("hard")) == ["C3"]


def test_either_file_of_combinations_is_enough(upstream):
    (upstream / "env_agent_combo_storages.jsonl").unlink()
    assert names(open_folder(upstream).scenarios("all")) == ["C2", "C3", "C0", "C1"]
    assert names(open_folder(upstream).scenarios("hard")) == ["C2", "C1"]


def test_without_a_list_nothing_is_hard(upstream):
    (upstream / "ampo_sotopia_hard_indices.json").unlink()
    with pytest.raises(MissingDataError, match="take split 'all'"):
        open_folder(upstream).scenarios("hard")


def test_without_combinations_pairs_play_what_suits_them(tmp_path):
    write_lines(tmp_path / "agent_profiles.jsonl", AGENTS)
    write_array(
        tmp_path / "environment_profiles.json",
        [
            environment(0, relationship=2),
            environment(1, relationship=2, age_constraint="[(20, 40), (18, 70)]"),
            environment(2, relationship=2, occupation_constraint="[potter, actor]"),
            environment(3, relationship=2, occupation_constraint="[['Student'], ['Actor', 'Potter']]"),
            environment(4, relationship="family_member"),
        ],
    )
    write_lines(
        tmp_path / "relationship_profiles.jsonl",
        [relationship(0, 1, "2"), relationship(2, 3, "2"), relationship(1, 2, "3")],
    )
    made = open_folder(tmp_path).scenarios("train")
    assert names(made) == ["E0-P0-P1", "E0-P2-P3", "E1-P0-P1", "E2-P0-P1", "E3-P2-P3"]


@pytest.mark.parametrize(
    ("name", "records", "message"),
    [
        (
            "env_agent_combo_storages.jsonl",
            [combination(0, 9, 0, 1)],
            ':1: "E9" is in no record of environment',
        ),
        ("env_agent_combo_storages.jsonl", [combination(0, 0, 0, 8)], ':1: "P8" is in no record of agent'),
        ("env_agent_combo_storages.jsonl", [combination(0, 0, 1, 1)], "expected two different agents"),
        ("env_agent_combo_storages.jsonl", COMBINATIONS[:3], "has other combinations than"),
        ("env_agent_combo_storages.jsonl", [*COMBINATIONS, COMBINATIONS[0]], 'the id "C0" occurs twice'),
        ("agent_profiles.jsonl", [agent(0), agent(0)], 'the id "P0" occurs twice'),
        (
            "agent_profiles.jsonl",
            [agent(0), agent(0, agent_id="P1"), agent(2), agent(3)],
            'both are called "Ilse Marsh"',
        ),
        ("agent_profiles.jsonl", [5], "expected a JSON object, got 5"),
        ("environment_profiles.json", [environment(0)], "are one file twice: move one of them away"),
        ("ampo_sotopia_hard_indices.json", 4, "is none of 4 combinations"),
    ],
)
def test_files_that_do_not_fit_are_refused(upstream, name, records, message):
    if isinstance(records, int):
        write_array(upstream / name, [0, records])
    else:
        write_lines(upstream / name, records)
    with pytest.raises(UsageError) as caught:
        open_folder(upstream)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["[0, 0]", "[-1]", '["a"]', "[true]", '{"a": 1}', "[1.5]"])
def test_numbers_that_are_none_are_refused(upstream, text):
    (upstream / "ampo_sotopia_hard_indices.json").write_text(text)
    with pytest.raises(UsageError, match="expected a list of different numbers"):
        open_folder(upstream)


@pytest.mark.parametrize("text", ["{", '{"a": NaN}', "[" * 99, '{"a": 1, "a": 2}', "\ud800"])
def test_files_that_are_no_json_are_refused(upstream, text):
    (upstream / "agent_profiles.jsonl").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(UsageError, match=r"agent_profiles\.jsonl"):
        open_folder(upstream)


@pytest.mark.parametrize("missing", ["agent_profiles", "environment_profiles"])
def test_a_folder_that_lacks_a_file_is_refused(upstream, missing):
    (upstream / f"{missing}.jsonl").unlink()
    with pytest.raises(MissingDataError, match=f"no {missing}.jsonl"):
        open_folder(upstream)
    (upstream / "env_agent_combo_storages.jsonl").unlink()
    (upstream / "ampo_env_agent_combos.json").unlink()
    with pytest.raises(MissingDataError):
        open_folder(upstream)


# ---- what is evaluated on is not trained on ----------------------------------------------------------


@pytest.fixture
def evaluated(monkeypatch):
    """Let the second environment be one that models are evaluated on."""
    one = parse_environment(environment(1), "here")
    text, goals = digests(one)
    monkeypatch.setattr(
        folders, "_evaluated", lambda: (frozenset([one.id]), frozenset([text]), frozenset([goals]))
    )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"env_id": "E7", "agent_goals": ["Other", "goals"]},
        {"env_id": "E7", "scenario": "Another place entirely."},
        {
            "env_id": "E7",
            "scenario": "two people SHARE <p>umbrella</p>, number 1, in the rain",
            "agent_goals": ["a", "b"],
        },
        {"env_id": "E7", "scenario": "Elsewhere.", "agent_goals": environment(1)["agent_goals"][::-1]},
        {"scenario": "Elsewhere.", "agent_goals": ["a", "b"]},
    ],
)
def test_a_scenario_that_is_evaluated_on_is_not_trained_on(upstream, evaluated, changes):
    changed = environment(1, **changes)
    lines = [environment(0), environment(2), changed]
    write_lines(upstream / "environment_profiles.jsonl", lines)
    write_lines(upstream / "env_agent_combo_storages.jsonl", [combination(0, 0, 0, 1)])
    (upstream / "ampo_env_agent_combos.json").unlink()
    with pytest.raises(UsageError) as caught:
        open_tasks(str(upstream), "train", "partner")
    assert str(caught.value) == (
        f"{upstream / 'environment_profiles.jsonl'}:3: {changed['env_id']!r} repeats a scenario that SOTOPIA "
        "evaluates on: take it out of what is trained on"
    )
    assert len(open_tasks(str(upstream), "all", "partner")) == 2


def test_others_are_trained_on(upstream):
    assert names(open_folder(upstream).scenarios("train")) == ["C0", "C1", "C2", "C3"]


# ---- tasks -------------------------------------------------------------------------------------------


def test_a_task_is_a_combination_and_a_side(upstream):
    tasks = open_tasks(str(upstream), "all", "partner")
    assert [task.source_id for task in tasks] == [f"C{place}#{side}" for place in range(4) for side in (0, 1)]
    task = tasks.find("C1#1")
    assert task == tasks[3] == tasks.find(task.id)
    assert (task.content.side, task.content.scenario.id, task.type) == (1, "C1", "invented")
    assert tasks.ids == [task.id for task in tasks]
    assert len(set(tasks.ids)) == 8
    tasks.verify()
    both = open_tasks(str(upstream), "all", "self-chat")
    assert [task.source_id for task in both] == ["C0", "C1", "C2", "C3"]
    assert both.find("C2").content.side is None
    assert not set(both.ids) & set(tasks.ids)
    assert both.manifest_sha256 != tasks.manifest_sha256
    both.verify()
    for unknown in ("C1", "C1#2", "C9#0", "#0", "C1#"):
        with pytest.raises(UsageError, match="no task"):
            tasks.find(unknown)
    with pytest.raises(UsageError, match="no task"):
        both.find("C1#0")


def test_ids_follow_from_the_content_alone(upstream):
    before = open_tasks(str(upstream), "all", "partner").ids
    renamed = [environment(n, codename="other", source="elsewhere") for n in range(3)]
    write_lines(upstream / "environment_profiles.jsonl", renamed)
    assert open_tasks(str(upstream), "all", "partner").ids == before
    write_lines(
        upstream / "environment_profiles.jsonl",
        [environment(0), environment(1), environment(2, relationship=4)],
    )
    after = open_tasks(str(upstream), "all", "partner").ids
    assert [i for i in range(8) if before[i] != after[i]] == [2, 3]


def test_equal_scenarios_are_told_apart(upstream):
    write_lines(
        upstream / "env_agent_combo_storages.jsonl", [combination(0, 0, 0, 1), combination(1, 0, 0, 1)]
    )
    (upstream / "ampo_env_agent_combos.json").unlink()
    tasks = open_tasks(str(upstream), "all", "partner")
    assert len(set(tasks.ids)) == 4
    tasks.verify()


def test_an_unknown_split_and_data_set_are_refused(upstream, data):
    with pytest.raises(UsageError, match=r"unknown split 'hardd' \(did you mean 'hard'\?\)"):
        open_tasks(str(upstream), "hardd", "partner")
    with pytest.raises(UsageError, match=r"unknown set of sotopia 'oficial' \(did you mean 'official'\?\)"):
        open_tasks("sotopia/oficial", "all", "partner")
    with pytest.raises(MissingDataError, match="agentgym data import sotopia PATH"):
        open_tasks("sotopia/official", "all", "partner")
    with pytest.raises(MissingDataError, match="no scenarios at 'nowhere': name builtin, sotopia/official"):
        open_tasks("nowhere", "all", "partner")


# ---- importing -----------------------------------------------------------------------------------------


def test_an_import_brings_all_files(upstream, data):
    assert not is_present(SOTOPIA, "official")
    entries = import_data(SOTOPIA, upstream, progress=unwatched)
    assert {name: entry.records for name, entry in entries.items()} == {
        "agent_profiles.jsonl": 4,
        "ampo_env_agent_combos.json": 4,
        "ampo_sotopia_hard_indices.json": 2,
        "env_agent_combo_storages.jsonl": 4,
        "environment_profiles.jsonl": 3,
    }
    assert list(find_damage(SOTOPIA, progress=unwatched)) == []
    assert is_present(SOTOPIA, "official")
    assert len(open_tasks("sotopia/official", "hard", "partner")) == 4
    (upstream / "agent_profiles.jsonl").unlink()
    write_array(upstream / "agent_profiles.json", AGENTS)
    import_data(SOTOPIA, upstream, progress=unwatched)
    assert [file.name for file in find_files(data / "sotopia")] == sorted(entries)


def test_the_published_names_and_folders_hold_the_same(upstream, data, tmp_path):
    """sotopia-space has four files in profiles/, and AMPO calls its two by shorter names."""
    expected = import_data(SOTOPIA, upstream, progress=unwatched)
    copy = tmp_path / "published"
    (copy / "profiles").mkdir(parents=True)
    published = {
        "ampo_env_agent_combos.json": "env_agent_combos.json",
        "ampo_sotopia_hard_indices.json": "sotopia_hard.json",
    }
    for file in upstream.iterdir():
        shutil.copy(file, copy / published.get(file.name, f"profiles/{file.name}"))
    assert names(open_folder(copy).scenarios("hard")) == names(open_folder(upstream).scenarios("hard"))
    shutil.rmtree(data / "sotopia")
    assert import_data(SOTOPIA, copy, progress=unwatched) == expected
    assert names(open_folder(copy / "profiles").scenarios("all")) == ["C0", "C1", "C2", "C3"]
    with pytest.raises(MissingDataError, match=r"no env_agent_combos\.json and sotopia_hard\.json in"):
        open_folder(copy / "profiles").scenarios("hard")
    shutil.copy(copy / "sotopia_hard.json", copy / "ampo_sotopia_hard_indices.json")
    with pytest.raises(UsageError, match=r"sotopia_hard\.json are one file twice: move one of them away"):
        import_data(SOTOPIA, copy, progress=unwatched)


def test_an_import_is_whole_or_not_at_all(upstream, data):
    write_lines(upstream / "env_agent_combo_storages.jsonl", [combination(0, 7, 0, 1)])
    with pytest.raises(UsageError, match="is in no record of environment_profiles"):
        import_data(SOTOPIA, upstream, progress=unwatched)
    assert not data.exists() or not list(data.rglob("*.json*"))


def test_an_import_to_train_on_refuses_what_is_evaluated_on(upstream, data, evaluated):
    with pytest.raises(UsageError, match="repeats a scenario that SOTOPIA evaluates on"):
        import_data(SOTOPIA_PI, upstream, progress=unwatched)
    write_lines(
        upstream / "environment_profiles.jsonl", [environment(0), environment(2), environment(5, env_id="E6")]
    )
    write_lines(
        upstream / "env_agent_combo_storages.jsonl", [combination(0, 6, 0, 1), combination(1, 2, 0, 1)]
    )
    (upstream / "ampo_env_agent_combos.json").unlink()
    import_data(SOTOPIA_PI, upstream, progress=unwatched)
    assert len(open_tasks("sotopia-pi/profiles", "train", "self-chat")) == 2
