"""Mutation testing: a tool changes the code a little, and a test has to fail.

The planted bugs of `e2e.sim.mutants` are those that we thought of. These are not: mutmut's
operators make them, in every function of the rooms that carry the rules (`rooms`).
"""
