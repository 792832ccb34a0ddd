"""The data source `chiplog` for PySpark: records or whole batches of one topic, as columns.

`register.register(spark)` makes it known to a session; `options` says what it is told.
"""
