"""The engines' former package, for the public name `agentgym.training.engines.types.Engine`."""
