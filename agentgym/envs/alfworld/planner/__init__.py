"""The planner: shortest plans, proven by A* with landmark cuts."""
