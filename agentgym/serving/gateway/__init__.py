"""A gateway for agents of others: model calls in OpenAI's and Anthropic's form, kept as training data."""
