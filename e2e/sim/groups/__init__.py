"""Simulated consumer groups: members that behave like a careful user's, and a history of them.

* `habits`: how many groups a seed has, and how they behave.
* `wire`: requests about groups, in any version; `assignments`: subscriptions and assignments.
* `member`: one consumer of a group; `crowd`: all groups of a run, and clients that watch them.
* `history`: requests and answers, for the checkers; `replay`: coordinators' memory and logs.
"""
