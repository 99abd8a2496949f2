"""The leaderboard as pages: static files that open from a disk as well as from a web server."""
