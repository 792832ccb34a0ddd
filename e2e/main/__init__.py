"""The main job: a BrokerCluster and Topics applied to Kubernetes, records produced and consumed.

The tests use only what users use: helm and kubectl, client libraries and Kafka's tools, from
outside the cluster through its nodeport listener. What else a test needs to know (which process
leads, what is on a volume) it asks for in the same way.
"""
