"""The version, in a module that everybody may import."""

__version__ = "0.1.0"
