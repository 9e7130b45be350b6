"""Who may run, when and where: rate limits, the fair queue, load balancing. Pure: now is an
argument."""
