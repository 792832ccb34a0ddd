"""Kopf's handlers, a module for each kind: they put the object into the cache and that is all.

The cache tells the loop of the object's cluster that there is something to look at. No handler
decides, waits or writes: what Kopf missed or says twice changes nothing.
"""
