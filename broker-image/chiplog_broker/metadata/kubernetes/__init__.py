"""Metadata of a broker whose cluster is described by Kubernetes objects.

The broker writes its own Broker status and Lease and nothing else; what it learns comes from
the specs of Brokers and PartitionMaps, which the operator writes.
"""
