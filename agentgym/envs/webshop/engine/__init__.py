"""The shop: pages, sessions, search, goals and rewards."""
