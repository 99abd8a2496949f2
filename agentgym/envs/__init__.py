"""One package per suite. Suites never import each other; each is registered in `agentgym.registration`."""
