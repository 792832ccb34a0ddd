"""Kubernetes' own API server beside the simulated one."""
