"""The form of what processes tell about themselves: lines of a log, and metrics."""
