"""Simulated consumer groups: members as a careful user's are, what they did and what they were
answered.

* `habits`: how much of what a seed's groups do.
* `wire`: the requests about groups, in any version; `assignments`: what members tell each other.
* `member`: one consumer of a group; `crowd`: all groups of a world, and who watches them.
* `history`: what was answered, for the checkers; `replay`: live state beside its log.
"""
