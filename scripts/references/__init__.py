"""A module for each reference of docs/, which it writes from the code alone."""
