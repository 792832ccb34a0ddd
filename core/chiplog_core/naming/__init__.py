"""What Chiplog's things are called in Kubernetes: kinds, object names, labels and ports."""
