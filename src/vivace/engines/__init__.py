"""Engines: whatever turns a prompt into tokens, behind one protocol."""
