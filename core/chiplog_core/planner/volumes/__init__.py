"""Volumes that are given up or created again, and what must be elsewhere before."""
