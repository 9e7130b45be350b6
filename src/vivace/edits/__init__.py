"""A text and what a model said of it in, an edit that changes only what was asked out."""
