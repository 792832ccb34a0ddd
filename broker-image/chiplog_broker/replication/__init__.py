"""Replicas of partitions that other brokers lead: getting what their leaders have."""
