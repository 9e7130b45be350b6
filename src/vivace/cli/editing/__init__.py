"""What ``vivace edit`` is made of: from the files a person names to the hunks they accept."""
