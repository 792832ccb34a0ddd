"""Real faults: unmodified clients in three languages, a cluster that is hurt, and a verdict.

What each client was answered goes into a history (`e2e.sim.history`), and the checkers of the
simulator judge it: nothing acknowledged is lost, nothing is stored twice, no offset holds two
values. Every fault proves that it had an effect, and every history is also judged with a loss
planted in it, which must be reported: a run that cannot see the fault it injects proves nothing.

What members of consumer groups commit goes into a history of its own (`group_history`), judged by
`group_checkers`: a committed offset never goes back, and nothing below it was left out. All other
readers assign their partitions themselves.

Transactions have a topic and a history of their own (`transactions`), which the simulator's
checkers judge, too.
"""
