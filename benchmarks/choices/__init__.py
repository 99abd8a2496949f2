"""What each choice of a protocol changes: pairs of columns of the suite ``choices``, and seeds and checkpoints of sweeps."""
