"""Between a gateway and an engine node: what both say, and what each of them knows. No I/O."""
