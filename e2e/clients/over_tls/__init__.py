"""The five clients at listeners with TLS: what they write and read there, and why they cannot."""
