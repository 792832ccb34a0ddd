"""Users of a secured cluster: they log in with passwords and certificates, and what they may do
changes.

Their clients note each login and each answer; the watch notes what each broker has got from the API
server and from its kubelet. The checkers compare both.
"""
