"""Where an edit goes: the place an instruction means, and what of an answer fits there."""
