"""Collecting the episodes of an iteration: their tasks, the pool that plays them, their batch."""
