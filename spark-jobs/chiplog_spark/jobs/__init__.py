"""The programs of `spark-submit`: a job reads a request file and writes its result to a ConfigMap.

`entry` is common to all; each kind of job has a module with a `main()`.
"""
