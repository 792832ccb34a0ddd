"""Which of several operator processes is active, by a Lease; and how an operator notices others
with other Leases."""
