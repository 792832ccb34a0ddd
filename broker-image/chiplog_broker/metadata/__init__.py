"""The metadata of the cluster: what the broker knows of it, and how it learns and changes it."""
