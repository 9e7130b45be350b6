"""Suite: change. A real VS Code and Neovim: one test each; the rest is marked release."""
