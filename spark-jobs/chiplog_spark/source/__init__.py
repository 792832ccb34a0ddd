"""The data source `chiplog` for PySpark: records or whole batches of one topic, as columns.

`register.register(spark)` registers it with a session; its options are in `options`.
"""
