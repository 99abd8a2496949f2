"""Records of a run: checkpoints, evaluations, statistics of iterations, spending."""
