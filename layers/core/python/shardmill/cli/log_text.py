"""Log lines on a terminal: colours are kept, other control sequences are removed.

A log is written by the programs of tasks. It must not clear the screen, set the title or the clipboard.
"""

from __future__ import annotations

import re

RESET = "\033[0m"
_CONTROL = re.compile(
    r"(?P<colour>\x1b\[[0-9;:]*m)"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[]P^_X][^\x07\x1b\r\n]*(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*[0-~]"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
"""A sequence that sets colours; any other one; a control character besides tab and the ends of lines."""
_BEGUN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[]P^_X][^\x07\x1b\r\n]*\x1b?|[ -/]*)$")


class LogText:
    """Prepares a log that arrives in pieces; a sequence may begin in one piece and end in the next."""

    def __init__(self, colours: bool) -> None:
        self._colours = colours
        self._begun = ""
        self._painted = False

    def shown(self, piece: str) -> str:
        text = self._begun + piece
        begun = _BEGUN.search(text)
        self._begun = begun.group() if begun else ""
        return _CONTROL.sub(self._keep_colour, text[: begun.start()] if begun else text)

    def end(self) -> str:
        """The end of the log: resets the colour, if the log has changed it."""
        return RESET if self._painted else ""

    def _keep_colour(self, found: re.Match[str]) -> str:
        colour = found["colour"] if self._colours else None
        if colour:
            self._painted = colour not in (RESET, "\033[m")
        return colour or ""


def log_text(text: str, colours: bool = False) -> str:
    """A whole text as it is shown."""
    log = LogText(colours)
    return log.shown(text) + log.end()
