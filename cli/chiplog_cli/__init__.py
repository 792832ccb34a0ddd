"""The command line `chiplog`, and `kubectl chiplog`: a cluster as an administrator sees it.

Commands gather facts through ports (`port`, `kube_port`), pure functions make rows and plans of
them, `printing` shows those. Whatever costs time to import is imported where it is used first:
`chiplog --help` needs none of it.
"""
