"""The formats in which processes report about themselves: lines of a log, and metrics."""
