"""Learning from demonstrations: behaviour cloning, DAgger and the supervised updates of both."""
