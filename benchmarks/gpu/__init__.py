"""What only a GPU can show: a list of checks, and programs that measure for it."""
