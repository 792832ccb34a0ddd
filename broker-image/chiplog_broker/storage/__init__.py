"""The log on disk, in Apache Kafka's own layout.

Everything here works through the ports and never waits, except where the name of a
coroutine says so; the same code runs on a simulated disk and clock.
"""
