r"""Quoting of values in the text of a Hive query, which can run programs: `!`, `transform` and `reflect`.

Inside quotes, characters that could end the text or begin a substitution (`${env:KEY}`) become `\uXXXX`,
which Hive reads as the same characters. Elsewhere only words, numbers and lists of them are accepted: no
quoting could keep other values from changing the query.
"""

from __future__ import annotations

import re

_WORDS = re.compile(r"(?!.*--)(?:[\w.:+-]+(?:, ?[\w.:+-]+)*)?\Z")
_SPECIAL = re.compile(r"""['"`\\;${}\x00-\x1f\x7f]""")
_UNSAFE = re.compile(r"""['"`\\;$(){}\x00-\x1f\x7f]|--""")


class HiveText:
    """Tracks the quotes of a query piece by piece and quotes the values between the pieces."""

    def __init__(self) -> None:
        self._place = ""
        """The quote around the current position, or `--` in a comment."""

    def quoted(self, value: str) -> str:
        """Quote a value for the current position; raises ValueError if it cannot be made safe."""
        if _WORDS.match(value):
            return value
        if self._place and self._place in "'\"":
            return _SPECIAL.sub(lambda found: f"\\u{ord(found[0]):04x}", value)
        raise ValueError(
            "here a query takes words, numbers and lists of them; write the placeholder inside quotes"
        )

    def feed(self, text: str) -> None:
        at = 0
        while at < len(text):
            at += self._step(text, at)

    def _step(self, text: str, at: int) -> int:
        """Process the token at `at`; return its length."""
        if self._place == "--":
            self._place = "" if text[at] == "\n" else "--"
        elif self._place:
            if text[at] == "\\" and self._place != "`":
                return 2
            self._place = "" if text[at] == self._place else self._place
        elif text[at] in "'\"`":
            self._place = text[at]
        elif text.startswith("--", at):
            self._place = "--"
            return 2
        return 1


class HiveSetting:
    """Checks the values in a setting, which becomes part of a query as `${hiveconf:NAME}`."""

    def quoted(self, value: str) -> str:
        """Return a value; raises ValueError if it could change a query in which it is used."""
        if _UNSAFE.search(value):
            raise ValueError(
                r"a setting takes no quotes, brackets, $, ; or \, because queries contain it as it is"
            )
        return value

    def feed(self, text: str) -> None:
        """Do nothing: the text of the definition does not affect how a value is checked."""
