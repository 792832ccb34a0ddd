"""What the fields of an object mean to each other, to its cluster and to its past.

Readers have checked each field alone; here are the rules across fields. The resource definitions
state as many of them as the API server can check (`crds/`), which is a convenience: it says no at
once. The rules count here, for objects of any age, for admin clients and without Kubernetes.
"""
