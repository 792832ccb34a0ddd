"""Metadata of a broker whose cluster is described by Kubernetes objects.

The broker writes only its own Broker status and Lease. It reads the specs of Brokers and
PartitionMaps, which the operator writes.
"""
