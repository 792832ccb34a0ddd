"""The statuses of objects other than Topics."""
