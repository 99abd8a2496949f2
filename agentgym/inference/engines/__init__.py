"""Generation engines: prompts to sampled tokens with their log-probabilities."""

from agentgym.inference.engines.types import Engine, Finish, Generation, GenerationRequest, Sampling

__all__ = ["Engine", "Finish", "Generation", "GenerationRequest", "Sampling"]
