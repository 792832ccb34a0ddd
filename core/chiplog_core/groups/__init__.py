"""Consumer groups of the classic protocol: their members, generations and assignments.

A `Membership` is one group at its coordinator. Its methods take requests and times, and return the
answers to send and the generations to store. Pure: no clock, no log, no network, no waiting.
"""
