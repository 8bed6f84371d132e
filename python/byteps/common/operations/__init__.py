"""What users ask for, as operations: a call for each family, and what takes several steps."""
