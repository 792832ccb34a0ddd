"""`make demo`: shows what Chiplog does on a real Kubernetes, which it sets up first.

Each step prints what it did, and then checks it in a second, independent way: by kcat what
kafka-python did, by `kubectl exec` what the operator reports, and the other way round. The first
check that fails ends the demo with an exit status other than 0.
"""
