"""ALFWorld's published games: importer, archives of trials, and the store they are read from."""
