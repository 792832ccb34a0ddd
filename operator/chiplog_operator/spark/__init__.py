"""Runs Spark jobs for those kinds that need them: looks, launches, reports.

What is to be done is decided in `chiplog_core.spark`; here it is found out and carried out.
"""
