"""Disk and untrusted input: files, records, paths, provenance, optional packages."""
