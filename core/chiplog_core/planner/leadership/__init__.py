"""Who leads a partition and who is in sync: elections, proposals, preferred leaders."""
