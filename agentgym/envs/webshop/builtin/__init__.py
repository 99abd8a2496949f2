"""The built-in shop: a catalogue and goals, made by rules from a seed."""
