"""What a turn is, what a lane does with it, and how turns make a conversation. Decides only."""
