"""Code as text, lines, tree and definitions: what edits, completions and findings read."""
