"""Which of several operator processes is active: by one Lease, and beside other operators'."""
