"""Generated games: rooms, furniture, things and six families of tasks, in the project's own words."""
