"""Trees of episodes: 3SPO's collector, whose branches restore snapshots."""
