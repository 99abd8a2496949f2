"""The machine: devices, and the memory that a run needs."""
