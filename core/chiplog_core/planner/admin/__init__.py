"""Requests of Kafka's admin clients."""
