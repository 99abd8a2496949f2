"""Environments as web sites, for people."""
