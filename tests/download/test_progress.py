"""How far a download is: one line for a terminal, nothing for a log."""

from __future__ import annotations

import io

from vivace.download.progress import progress_line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_one_line_and_a_log_none() -> None:
    terminal, log = Terminal(), io.StringIO()
    with progress_line("tiny", terminal) as progress:
        assert progress
        progress(500_000, 1_000_000)
        progress(500_001, 1_000_000)  # too soon to be shown
    assert terminal.getvalue() == "\rtiny:  50%  0.5 MB of 1.0 MB\x1b[K\r\x1b[K"
    with progress_line("tiny", log) as progress:
        assert progress is None
    assert log.getvalue() == ""
