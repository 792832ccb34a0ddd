"""`make demo`: what Chiplog does, shown on a real Kubernetes, from nothing.

Each step prints what it did and then asks a second, independent way whether it is true: kcat for
what kafka-python did, `kubectl exec` for what the operator says, and the other way round. The
first answer that does not fit ends the demo with another exit status than 0.
"""
