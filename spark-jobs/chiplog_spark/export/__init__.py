"""Export: a topic's records as Parquet files, in one directory per day, each offset exactly once.

A run determines its end offsets when it begins, and exports up to them in steps. The records of a
step are written to a staging directory, then a commit is recorded, and only then the files get the
names that readers see. A run that was killed leaves files without a commit, which nobody reads and
the next run removes, or a commit whose files are not all moved, which the next run does first.

`plan`, `commits` and `places` are pure. `runs` combines them with the ports in `files` and
`writing`, which Spark and Hadoop implement. The reasons are in docs/decisions/0022.
"""
