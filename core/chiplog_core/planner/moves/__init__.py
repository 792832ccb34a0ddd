"""Moves of replicas: which are wanted, their steps, throttles, and what must stay meanwhile."""
