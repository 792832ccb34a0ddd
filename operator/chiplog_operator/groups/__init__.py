"""How the operator observes consumer groups: thin shells around `chiplog_core.group_watch`."""
