"""EZPoints: make 12 from two cards, one token at a time (the easy task of Gym Cards)."""
