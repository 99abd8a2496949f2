"""SOTOPIA: two people with private goals talk."""
