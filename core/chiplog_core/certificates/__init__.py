"""Which certificates a cluster needs, and when they are issued, renewed and dropped.

Facts in, decisions out: keys, PEM and the API server are the operator's. A certificate authority
(CA) is changed in steps, each of which changes one Secret, so that every state between two of them
is one from which the next decision continues:

1. The new CA certificate is published beside the old one: clients and brokers trust both.
2. Certificates are issued from it: those of users when every broker reports that it trusts it, and
   those of brokers when clients also have had time to read it (`PUBLISHED_FOR`).
3. The old one is dropped when it has expired; or when a user says so, and every broker reports
   that it uses the new one.
"""
