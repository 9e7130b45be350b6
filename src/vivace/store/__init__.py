"""Turns that must outlive the process."""
