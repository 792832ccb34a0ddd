"""The operator's looks at consumer groups: thin shells around `chiplog_core.group_watch`."""
