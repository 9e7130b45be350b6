"""What is wrong with code as it is typed: rules, what they find, and fixes that were checked."""
