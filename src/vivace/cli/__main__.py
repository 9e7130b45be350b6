"""``python -m vivace.cli``, for where the console script is not on PATH."""

from vivace.cli.main import main

main()
