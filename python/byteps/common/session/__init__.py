"""The session of this process: what it submits, waits for, and knows of the other ranks."""
