"""Renames: which places of a name mean the same thing, proven or doubted."""
