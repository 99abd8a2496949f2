"""Copies of SOTOPIA's files with invented people in invented places."""

import json


def agent(number, **changes):
    return {
        "agent_id": f"P{number}",
        "first_name": ("Ilse", "Tariq", "Wren", "Bodo")[number],
        "last_name": ("Marsh", "Olin", "Vale", "Kern")[number],
        "age": (30, 41, 19, 66)[number],
        "occupation": ("Potter", "Actor", "Student", "Actor")[number],
        "gender": ("Woman", "Man", "Nonbinary", "Man")[number],
        "gender_pronoun": ("She/her", "He/him", "They/them", "He/him")[number],
        "public_info": f"Public {number}.",
        "big_five": "Openness - Low",
        "moral_values": ["Care", " Fairness"],
        "schwartz_personal_values": ["Security"],
        "personality_and_values": f"Personal {number}.",
        "decision_making_style": "Analytical",
        "secret": f"Secret {number}",
        "mbti": "ENTP",
        **changes,
    }


def environment(number, **changes):
    return {
        "env_id": f"E{number}",
        "codename": f"made_up_{number}",
        "source": "invented",
        "scenario": f"Two people share umbrella number {number} in the rain.",
        "agent_goals": [
            f"Keep umbrella {number} dry",
            f"Borrow umbrella {number} (<extra_info>now</extra_info>)",
        ],
        "relationship": str(number % 6),
        "age_constraint": "[(18, 70), (18, 70)]",
        "occupation_constraint": "nan",
        "agent_constraint": "none",
        **changes,
    }


def combination(number, env, first, second):
    return {"combo_id": f"C{number}", "env_id": f"E{env}", "agent_ids": [f"P{first}", f"P{second}"]}


def relationship(first, second, kind):
    return {
        "relationship_id": f"R{first}{second}",
        "agent1_id": f"P{first}",
        "agent2_id": f"P{second}",
        "relationship": kind,
        "background_story": "They met.",
    }


AGENTS = [agent(number) for number in range(4)]
ENVIRONMENTS = [environment(number) for number in range(3)]
COMBINATIONS = [
    combination(0, 0, 0, 1),
    combination(1, 2, 1, 3),
    combination(2, 1, 2, 0),
    combination(3, 0, 3, 2),
]
SHUFFLED = [COMBINATIONS[place] for place in (2, 3, 0, 1)]
HARD = [0, 3]


def write_lines(path, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def write_array(path, value):
    path.write_text(json.dumps(value))


def write_copy(folder):
    """Write a whole copy, with the files of the hard split."""
    write_lines(folder / "agent_profiles.jsonl", AGENTS)
    write_lines(folder / "environment_profiles.jsonl", ENVIRONMENTS)
    write_lines(folder / "env_agent_combo_storages.jsonl", COMBINATIONS)
    renamed = [{"pk": each["combo_id"], **{k: each[k] for k in ("env_id", "agent_ids")}} for each in SHUFFLED]
    write_array(folder / "ampo_env_agent_combos.json", renamed)
    write_array(folder / "ampo_sotopia_hard_indices.json", HARD)
    return folder
