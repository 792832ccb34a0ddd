"""What platform teams do: charts through their life, GitOps, Prometheus, policies, and secrets."""
