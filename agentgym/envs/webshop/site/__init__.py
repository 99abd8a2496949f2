"""The shop as HTML pages for people."""
