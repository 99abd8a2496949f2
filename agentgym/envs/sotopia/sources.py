"""The official scenarios: their upstreams, and the files of a copy."""

from agentgym.core.suite_spec import DataSource

SOTOPIA = DataSource(
    name="sotopia",
    folder="sotopia",
    about="SOTOPIA: 90 scenarios, 40 characters, 450 combinations of them, and the hard 70 of those",
    upstream="https://github.com/sotopia-lab/sotopia-space (profiles/), with env_agent_combos.json and "
    "sotopia_hard.json of https://github.com/MozerWang/AMPO",
    licence="none stated for the profiles; AMPO's two files Apache-2.0",
    sets={"official": ("all", "hard")},
    expected="environment_profiles.jsonl with agent_profiles.jsonl and env_agent_combo_storages.jsonl",
    importer="agentgym.envs.sotopia.data.importer:SOTOPIA_IMPORTER",
)

SOTOPIA_PI = DataSource(
    name="sotopia-pi",
    folder="sotopia-pi",
    about="SOTOPIA-pi: scenarios to train on, none of them SOTOPIA's own",
    upstream="https://huggingface.co/datasets/cmu-lti/sotopia-pi (dump.rdb of Redis, to be exported: its "
    "profiles are not published as files)",
    licence="CC BY-SA 4.0",
    sets={"profiles": ("train",)},
    expected="environment_profiles.jsonl with agent_profiles.jsonl and env_agent_combo_storages.jsonl or "
    "relationship_profiles.jsonl",
    importer="agentgym.envs.sotopia.data.importer:SOTOPIA_PI_IMPORTER",
)

SOURCES = (SOTOPIA, SOTOPIA_PI)
