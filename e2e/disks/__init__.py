"""The real disk beside the simulated one, and real file systems that lose what they were given."""
