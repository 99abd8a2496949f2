"""Official files as their publishers offer them, hosts that offer them badly, and what comes of it."""
