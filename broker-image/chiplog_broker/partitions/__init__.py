"""The replicas on this broker: their roles, high watermarks and waiting requests."""
