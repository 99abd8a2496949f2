"""Sokoban: gym-sokoban's rules on text, pictures and arrays, with hashed levels and a solver."""
