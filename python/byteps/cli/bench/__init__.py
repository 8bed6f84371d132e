"""`bps bench`: how long an exchange takes, beside the least time that this hardware allows."""
