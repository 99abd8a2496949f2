"""The built-in levels: the generator, and the bank of levels that ships in the wheel."""
