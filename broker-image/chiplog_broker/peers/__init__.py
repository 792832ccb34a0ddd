"""Connections to the other brokers of the cluster, as their client."""
