"""The interfaces to the world outside the broker: one protocol each for disk, network, clock,
randomness and machine.

Production implementations (`System...`) are in the module of their protocol, or in one of their
own.
"""
