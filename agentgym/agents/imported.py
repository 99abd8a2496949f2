"""The agent of imported runs: it plays nothing; its options record where a run is from."""

from __future__ import annotations

from agentgym.core.types import Policy
from agentgym.errors import UsageError
from agentgym.vector.core import AgentVectorEnv

IMPORTED = "imported"
"""Its name in `agentgym.agents.table.AGENTS`."""


def make_imported(
    envs: AgentVectorEnv,
    *,
    origin: str,
    dialect: str,
    log_sha256: str,
    panel: str = "",
    public: str = "",
    mismatches: int = 0,
    first_mismatch: str = "",
) -> Policy:
    """Raise a UsageError: what was played elsewhere can be verified, and not played further."""
    raise UsageError(f"an imported run ({origin}) cannot be played further: run `agentgym verify` on it")
