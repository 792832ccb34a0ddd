"""The main job: a BrokerCluster and Topics applied to Kubernetes, records produced and consumed.

Everything goes through the front door: helm and kubectl, client libraries and Kafka's tools,
from outside the cluster through its nodeport listener. What a test needs to know beyond that
(which process leads, what a volume holds) it asks the cluster for in the same way.
"""
