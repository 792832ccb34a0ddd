"""What the operator has observed of a cluster at one moment, and the facts that follow from it.

`world.World` is all input of a plan. The other modules derive facts from it: which processes are
alive and may lead, which process must be admitted, which part of the spec is in force, and for how
long something has been true. The package `chiplog_core.planner` and others decide what to do.
"""
