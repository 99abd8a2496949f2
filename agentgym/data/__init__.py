"""Official data: the data directory, importing, and the record file that stores share."""
