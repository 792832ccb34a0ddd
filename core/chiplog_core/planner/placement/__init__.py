"""Where new replicas go, and whether there is room for them."""
