"""What all framework plugins share: the session, its errors, and the programs of the package."""
