"""Suite: change. Pure logic; long tables of cases are marked release."""
