"""EZPoints as the rest of the package sees it."""

from agentgym.suites import PromptDefaults, SuiteSpec

SUITE = SuiteSpec(name="ezpoints", prompt=PromptDefaults("ezpoints", tiny_history=0))
