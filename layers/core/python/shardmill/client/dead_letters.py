"""Dead letters, as methods of the Client."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from shardmill.client.calls import Calls, read
from shardmill.model.operations.dead_letter import DeadLetter, DeadLetterContent

_LIST = "/v1/dead-letters"


class DeadLetterCalls(Calls):
    def dead_letters(self) -> Iterator[DeadLetter]:
        """The dead letters, newest first, without their payloads."""
        return self._list(DeadLetter, _LIST)

    def dead_letter(self, letter_id: str) -> DeadLetterContent:
        """A dead letter with its payload."""
        return read(DeadLetterContent, self._http.get(_path(letter_id)))

    def redrive_dead_letter(self, letter_id: str) -> DeadLetter:
        """Send a dead letter to its original destination again. If it fails again, it returns with another
        id."""
        return read(DeadLetter, self._http.send("POST", f"{_path(letter_id)}:redrive"))

    def delete_dead_letter(self, letter_id: str) -> None:
        self._http.send("DELETE", _path(letter_id))


def _path(letter_id: str) -> str:
    return f"{_LIST}/{quote(letter_id, safe='')}"
