"""The built-in shop: a catalogue and wishes, made by rules from a seed."""
