"""Incremental fetch sessions (KIP-227), as values and decisions: no I/O, no clock, no chance."""
