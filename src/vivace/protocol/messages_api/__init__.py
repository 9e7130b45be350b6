"""Anthropic's Messages API: another front door to the same turns.

A request is translated into a ``CreateResponse`` and the turn's events into its own; nothing else
in Vivace knows that this form exists.
"""
