"""What a person does at the desk: ask, edit, decide, apply, check, try. No terminal in here.

What happens comes out as events, and what has to be decided is asked; the command line, a language
server or a test is the ``Person`` who is told and asked.
"""
