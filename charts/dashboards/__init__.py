"""Grafana dashboards: what they show, from which their JSON is written and their queries read."""
