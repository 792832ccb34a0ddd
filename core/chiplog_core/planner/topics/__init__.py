"""Topics and their PartitionMaps: created, grown, deleted, rebuilt and reported."""
