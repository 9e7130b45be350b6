"""What keys have used of their limits, counted by one gateway or by several together."""
