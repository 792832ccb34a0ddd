"""Admin operations of clients, and the checks whether they can be carried out.

A standalone broker and the operator share them, so that `kafka-topics.sh` gets the same answer from
both. Pure: no I/O, no Kubernetes.
"""
