"""The form of what processes report about themselves: lines of a log, and metrics."""
