"""``vivace lsp`` with all in its log that can be there: ``python -m tests.lsp.verbose``."""

from __future__ import annotations

import logging
from functools import partial

from vivace import logs
from vivace.cli.lsp import lsp


def main() -> None:
    logs.log_without_code = partial(logs.log_without_code, logging.DEBUG)
    lsp()


if __name__ == "__main__":
    main()
