"""Prompt templates: data files, what they may hold, and how they are read."""

from agentgym.prompts.template import Template, answers, load_template, wordings

__all__ = ["Template", "answers", "load_template", "wordings"]
