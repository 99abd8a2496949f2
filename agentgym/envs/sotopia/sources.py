"""The official scenarios: their upstreams, and the files of a copy."""

from agentgym.core.suite_spec import DataSource

SOTOPIA = DataSource(
    name="sotopia",
    folder="sotopia",
    about="SOTOPIA: 90 scenarios, 40 characters, 450 combinations of them, and the hard 70 of those",
    upstream="https://huggingface.co/datasets/cmu-lti/sotopia, with both files of the hard split from AMPO",
    licence="CC BY-SA 4.0; the code Apache-2.0",
    sets={"official": ("all", "hard")},
    expected="environment_profiles.jsonl with agent_profiles.jsonl and env_agent_combo_storages.jsonl",
    importer="agentgym.envs.sotopia.data.importer:SOTOPIA_IMPORTER",
)

SOTOPIA_PI = DataSource(
    name="sotopia-pi",
    folder="sotopia-pi",
    about="SOTOPIA-pi: scenarios to train on, none of them SOTOPIA's own",
    upstream="https://github.com/sotopia-lab/sotopia-pi (exported to files as SOTOPIA exports them)",
    licence="Apache-2.0",
    sets={"profiles": ("train",)},
    expected="environment_profiles.jsonl with agent_profiles.jsonl and env_agent_combo_storages.jsonl or "
    "relationship_profiles.jsonl",
    importer="agentgym.envs.sotopia.data.importer:SOTOPIA_PI_IMPORTER",
)

SOURCES = (SOTOPIA, SOTOPIA_PI)
