"""The log on disk, in Apache Kafka's layout.

All access goes through the ports, so the same code runs on a simulated disk and clock. Only
coroutines wait.
"""
