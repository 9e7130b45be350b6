"""Turns that are kept: put on record as they go, and gone on with after a crash."""
