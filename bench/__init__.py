"""Measurements of Vivace, through its public interfaces only."""
