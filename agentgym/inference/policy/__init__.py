"""Language models as policies: prompting, sampling, reading the action, saved agents."""
