"""What is so of single brokers: cordoned, under maintenance, without a volume, their addresses."""
