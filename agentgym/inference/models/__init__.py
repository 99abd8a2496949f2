"""Language models: loaded from directories, or tiny ones made for an environment."""
