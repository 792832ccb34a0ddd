"""The replicas this broker holds: who may write to them, who waits for them."""
