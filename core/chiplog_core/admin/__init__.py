"""Admin operations: what a client may ask for, and what is wrong with asking for it.

Decided in one place for a broker that is a cluster on its own and for the operator, so that
`kafka-topics.sh` gets the same answer in both. Pure: nothing here waits or knows Kubernetes.
"""
