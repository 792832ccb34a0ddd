"""Volumes that are given up or made anew, and what must be elsewhere before."""
