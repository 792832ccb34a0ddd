"""What the operator knows of a cluster at one moment, and what follows from that alone.

`world.World` is everything that a plan may use. The other modules say what it means: which
processes are alive and may lead, which of them is to be admitted, which part of the spec is in
force, and for how long something has been true. What is to be done about it is decided in
`chiplog_core.planner` and in the directories beside it.
"""
