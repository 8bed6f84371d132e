"""Helpers for programs written for the original."""
