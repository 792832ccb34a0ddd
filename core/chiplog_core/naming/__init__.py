"""Chiplog's names in Kubernetes: kinds, object names, labels and ports."""
