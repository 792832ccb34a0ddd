"""What this broker does for each API: one module for what belongs together, one table."""
