"""Consumer groups of the classic protocol: who is a member, in which generation, with what.

One `Membership` is one group at its coordinator. It decides and never waits: requests and times
go in, answers and what is to be stored come out. Pure: no clock, no log, no network.
"""
