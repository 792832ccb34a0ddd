"""Rules for an object that concern several of its fields, its cluster, or its earlier state.

The readers of manifests check each field separately; these rules concern several. The resource
definitions (`crds/`) have as many of them as the API server can check, so that it refuses an object
immediately. The rules here are complete; they hold for objects of any age, for admin clients and
without Kubernetes.
"""
