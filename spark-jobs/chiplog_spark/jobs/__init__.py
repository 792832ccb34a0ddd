"""What `spark-submit` starts: a job is told by a request file and answers in a ConfigMap.

`entry` is what all of them share; each kind has a module whose `main()` its main file calls.
"""
