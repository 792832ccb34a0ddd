"""Export: a topic's records as Parquet files, one folder a day, each offset exactly once.

A run fixes where it ends as it begins, and goes there in steps. What a step reads is written to a
staging folder, then a commit is recorded, and only then do its files get the names that readers
see. A run that was killed leaves files without a commit, which nobody reads and the next run
removes, or a commit whose files are still to be moved, which the next run does first.

`plan`, `commits` and `places` are pure; `runs` composes them over the ports in `files` and
`writing`, which Spark and Hadoop fulfil. Why it is done so: docs/decisions/0022.
"""
