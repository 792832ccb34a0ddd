"""Mutation testing: a tool makes small changes to the code, and a test has to fail for each.

The planted bugs of `e2e.sim.mutants` were written by hand. Here mutmut's operators generate the
changes ("mutants"), in every function of the modules with the most important rules ("rooms").
"""
