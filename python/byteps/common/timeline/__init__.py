"""Timelines: what a process notes of its operations, and one file of all processes' notes."""
