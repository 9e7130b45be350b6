"""Suite: change. Rules and their examples; comparisons with ast-grep are marked release."""
