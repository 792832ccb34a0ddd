"""Rolling restarts: which brokers, when, and how many at once."""
