"""Who may do what: Kafka's ACLs, and the decision of its StandardAuthorizer (KIP-801)."""
