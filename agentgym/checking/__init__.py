"""The conformance kit: does an environment keep the contract, and its vector form equal it?

For third parties: derive from `agentgym.AgentEnv`, then let one test call `check_agent_env` and
`check_agent_vector_env`. Each promise is one small function of the modules that
`agentgym.checking.single` lists, of `agentgym.checking.vector` or, for what must be refused as a whole, of
`agentgym.checking.refusals`: they read as the contract's checklist.
"""

from agentgym.checking.evidence import ContractError
from agentgym.checking.single import check_agent_env
from agentgym.checking.vector import check_agent_vector_env

__all__ = ["ContractError", "check_agent_env", "check_agent_vector_env"]
