"""Makes the proposals of Rebalances from measured figures, and checks whether their moves are still
valid. All functions are pure."""
