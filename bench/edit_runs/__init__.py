"""Runs edit tasks, whichever set they come from, and counts what the person would have met.

``tasks`` makes both kinds of task look alike; ``places`` knows which lines a right edit changes.
``desk`` does them as ``vivace edit --yes`` would, ``plain`` by the plain ``prompts``. What became
of each is one of the ``results``, kept in a file of JSON lines; ``tables`` is what they come to.
"""
