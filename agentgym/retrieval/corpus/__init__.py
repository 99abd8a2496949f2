"""Corpora: passages in files, the forms they are published in, and their download."""
