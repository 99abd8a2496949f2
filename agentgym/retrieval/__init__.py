"""Search: indexes of text on disk, shared by all episodes of a process."""
