"""Logins with tokens: OAUTHBEARER (RFC 7628) and signed tokens (RFC 7519), as in KIP-255 and 768.

`bearer.py` is the exchange with the client, `signatures.py` verifies a token by a key of
`jwk_set.py`, and `signing_keys.py` keeps the issuer's keys. `chiplog_core.token_claims` decides
what a token proves.
"""
