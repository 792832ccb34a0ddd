"""The Chiplog broker: Kafka's wire protocol outside, Kafka's log format inside.

    socket - frames - codec - dispatch - partition - log - segment - disk

What is nondeterministic (time, disk, network, chance, metadata) is reached only
through `ports`, so that a simulator runs this very code on its own.
"""
