"""How much of a broker its clients may use (KIP-13, KIP-124, KIP-546, KIP-599)."""
