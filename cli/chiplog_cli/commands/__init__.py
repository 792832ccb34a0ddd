"""The commands. Each asks the ports, lets pure functions decide, and prints."""
