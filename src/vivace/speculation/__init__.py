"""Speculative decoding without a draft model: old tokens and what was written so far in, a draft of
what comes next out."""
