"""The desk in an editor: a language server over standard input and output."""
