"""Who may run, and when: limits, the fair queue, placement. Pure: now is an argument."""
