"""Small wrong edits, made one at a time, that a test must notice."""
