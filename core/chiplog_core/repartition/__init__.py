"""What a repartition decides: where groups continue, and when the new generation takes the name.

The rules are those of docs/decisions/0083. Nothing uses them yet: `growth.strategy: Repartition` is
refused.
"""
