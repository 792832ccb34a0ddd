"""Replicas and brokers of a cluster are changed under load, through kubectl and Kafka's tools."""
