"""Scenarios and characters that others made: files, readers, the importer."""
