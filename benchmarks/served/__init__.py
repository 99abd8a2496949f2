"""Models behind `transformers serve`: tiny ones of three families, and the server itself."""
