"""``python -m agentgym`` is ``agentgym``."""

import sys

from agentgym.cli import main

sys.exit(main())
