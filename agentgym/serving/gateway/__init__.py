"""A gateway for foreign agents: model calls in OpenAI's and Anthropic's form, stored as training data."""
