"""Runs edit tasks, whichever set they come from, and counts what the person would have met.

tasks     both kinds of task, looking alike
places    which lines a right edit changes, and whether a region holds them
desk      the ways through the desk, as ``vivace edit --yes`` goes
plain     the plain prompts
results   what became of a task, in a file of JSON lines
tables    counts, shares and goals
"""
