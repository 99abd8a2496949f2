"""Sokoban as the rest of the package sees it."""

from agentgym.suites import DataSource, PromptDefaults, SuiteSpec

BOXOBAN = DataSource(
    name="boxoban",
    folder="sokoban",
    about="Sokoban levels, 10x10 with 4 boxes",
    upstream="https://github.com/google-deepmind/boxoban-levels",
    licence="Apache-2.0",
    sets={"unfiltered": ("train", "valid", "test"), "medium": ("train", "valid"), "hard": ()},
    expected="unfiltered/, medium/, hard/",
    importer="agentgym.envs.sokoban.data.boxoban:IMPORTER",
)

SUITE = SuiteSpec(
    name="sokoban",
    prompt=PromptDefaults("sokoban", tiny_history=0),
    tiny={"env_options.dim_room": [6, 6], "env_options.num_boxes": 1},
    sources=(BOXOBAN,),
)
