"""Runs Spark jobs for the kinds that need them: observes, launches, reports.

What is to be done is decided in `chiplog_core.spark`; here it is found out and carried out.
"""
