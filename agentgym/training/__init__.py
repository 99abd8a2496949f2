"""Training language models as agents: collecting episodes, learners that update, and the loop of both.

Everything below this package needs the extra ``train``; importing it without says so.
"""

import agentgym.inference  # noqa: F401 (says which package of the extra is missing)
