"""What a rebalance proposes, from measured figures, and whether that still holds. All pure."""
