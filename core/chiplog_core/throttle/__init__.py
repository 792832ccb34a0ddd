"""The throttle of replication (KIP-73): which copies it applies to, and how fast they may be."""
