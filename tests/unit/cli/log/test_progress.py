"""The progress bar: shown for long work on a terminal only."""

import io
import sys

import pytest

from ottla.cli.log.progress import SHOWN_BYTES_MIN, no_progress, progress_of


def test_a_pipe_gets_no_bar() -> None:
    with progress_of("reading", SHOWN_BYTES_MIN * 2) as advance:
        assert advance is no_progress


def test_a_terminal_gets_a_bar_for_long_work_only(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress_of("reading", SHOWN_BYTES_MIN - 1) as advance:
        assert advance is no_progress
    with progress_of("reading", SHOWN_BYTES_MIN) as advance:
        advance(SHOWN_BYTES_MIN // 2)
    assert "reading" in terminal.getvalue()
