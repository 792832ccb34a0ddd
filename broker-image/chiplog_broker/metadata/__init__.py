"""What the broker knows of its cluster, and how it learns and changes it."""
