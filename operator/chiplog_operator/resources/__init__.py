"""What a BrokerCluster becomes in Kubernetes: pure functions from its spec to manifests.

One module per kind; `build` puts them together and is what the rest of the operator calls. The
same spec and settings give the same manifests, byte for byte. Nothing here asks anybody.
"""
