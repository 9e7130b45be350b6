"""Suite: change. Edits, reviews and watches without a terminal or a model."""
