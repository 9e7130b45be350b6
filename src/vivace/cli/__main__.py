"""``python -P -m vivace.cli``, for where the console script is not on PATH.

Without ``-P``, modules of the current folder would be imported first.
"""

from vivace.cli.main import main

if __name__ == "__main__":  # an engine's worker processes import this file too
    main()
