"""What to ask a model for at a keystroke, and what to show of its answer."""
