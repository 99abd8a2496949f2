"""agentgym: environments, algorithms, trainer and leaderboard for language agents."""

__version__ = "0.1.0"
