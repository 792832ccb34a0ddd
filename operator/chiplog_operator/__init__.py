"""The operator: observes what Kubernetes holds, plans in core, acts, and reports."""
