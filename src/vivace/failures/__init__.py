"""What a failed command printed -> where and why it failed, in the person's own files.

``reading.read`` is the way in: ``output`` makes lines of what was printed, bounded however much
that is; a module for each language looks for the forms of its own errors in them; ``own`` says
which files of the project the frames are about. Nothing is run and no file is opened.
"""
