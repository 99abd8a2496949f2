"""Policies that need no model, and the table that names them."""

from agentgym.agents.table import AGENTS, AgentEntry, check_agent, find_agent, make_agent

__all__ = ["AGENTS", "AgentEntry", "check_agent", "find_agent", "make_agent"]
