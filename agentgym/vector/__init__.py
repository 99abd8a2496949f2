"""Vectorised environments: in one process (`core`) and over worker processes (`sharded`)."""
