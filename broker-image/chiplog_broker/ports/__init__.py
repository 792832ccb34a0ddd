"""The broker's edges: one protocol for each thing that is not a function of its input.

Production implementations (`System...`) stand in the module of their protocol, or beside it.
"""
