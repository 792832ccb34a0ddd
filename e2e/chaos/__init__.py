"""Real faults: unmodified clients in three languages, a cluster that is hurt, and a verdict.

What each client was told goes into a history (`e2e.sim.history`), and the checkers of the
simulator judge it: nothing acknowledged is lost, nothing is stored twice, no offset holds two
values. Every fault proves that it bit, and every history is also judged with a loss planted in
it, which must be reported: a run that cannot see what it looks for is no run.

Of committed offsets, which may never go back, nothing is said here: no client commits one.
Readers assign their partitions themselves.
"""
