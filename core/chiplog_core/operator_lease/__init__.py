"""Which of several operator processes is in charge: by one Lease, and beside other operators'."""
