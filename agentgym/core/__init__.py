"""Foundations of every suite: types, tasks, spaces, state hashes, snapshots, rewards, tools and options."""
