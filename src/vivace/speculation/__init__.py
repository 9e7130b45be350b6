"""Old tokens and what was written so far in, a draft of what comes next out."""
