"""What the operator does next: pure decisions from what is wanted and what was observed.

`plan` is called again and again with a fresh `World`; every action it returns carries the
precondition under which it was decided, so an action that is late, lost or done twice is
harmless. Nothing here waits, reads a clock or draws a number.
"""
