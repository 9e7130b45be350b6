"""Turns that other gateways hold, which share this one's store."""
