"""The game engine: PDDL domain, grammar of texts, and the code that a game is compiled to."""
