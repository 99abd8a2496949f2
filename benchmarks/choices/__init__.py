"""What choices of a protocol change: columns of a suite, temperatures, seeds and checkpoints."""
