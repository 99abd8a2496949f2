"""Generated games: rooms, furniture, objects and six families of tasks, in the project's own words."""
