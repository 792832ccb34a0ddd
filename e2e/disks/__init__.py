"""Compares the real disk with the simulated one, and provides real file systems that lose data."""
