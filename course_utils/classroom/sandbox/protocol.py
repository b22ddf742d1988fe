"""Messages between grader, supervisor and student's process: JSON objects, each after its length (``Channel``).

The other side may have been taken over by a student's code, so that whatever arrives is checked before it is used. What
the runner says in a student's process is signed (``signed``, ``opened``), because a student's code could write into the
same channel.
"""

from __future__ import annotations

import builtins
import json
import socket
import struct
from hashlib import blake2b as _blake2b
from hmac import compare_digest
from typing import Any

# This module's functions look names up in a copy that no student's code can reach by name. It must stand before them.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]  # a module or its dict, says Python

_HEADER = struct.Struct("!I")


class Broken(Exception):
    """What arrived is no message: the other side has ended in the middle of one, or someone else wrote."""


class Closed(Exception):
    """The other side has ended."""


class Ended(Exception):
    """A submission's process is gone, or had to go. The message says why, for the teacher.

    Attributes:
        outcome: ``"killed"`` or ``"timed out"``; empty where that may not be the submission's doing.
    """

    def __init__(self, outcome: str, why: str) -> None:
        super().__init__(why)
        self.outcome = outcome


class Channel:
    """One end of a stream socket that carries messages.

    Args:
        end: the socket; it is this object's from now on.
        largest_bytes: a longer message is ``Broken``.
    """

    def __init__(self, end: socket.socket, largest_bytes: int = 64 * 2**20) -> None:
        self.socket = end
        self._largest = largest_bytes
        self._waiting = bytearray()

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, message: dict[str, Any]) -> None:
        """Sends a message whole.

        Raises:
            Closed: nobody is there to read it.
        """
        body = json.dumps(message).encode()
        try:
            self.socket.sendall(_HEADER.pack(len(body)) + body)
        except OSError as error:
            raise Closed(str(error)) from error

    def receive(self) -> dict[str, Any]:
        """Waits for the next message.

        Raises:
            Closed: the other side has ended.
            Broken: it is none.
            TimeoutError: the socket has a timeout, and it has passed.
        """
        while (message := self._next()) is None:
            self._read()
        return message

    def receive_ready(self) -> list[dict[str, Any]]:
        """All messages that are there after one read; for use after ``select``.

        Raises:
            Closed: the other side has ended.
            Broken: one of them is none.
        """
        self._read()
        return list(iter(self._next, None))

    def close(self) -> None:
        self.socket.close()

    def _read(self) -> None:
        try:
            chunk = self.socket.recv(2**18)
        except (TimeoutError, BlockingIOError):
            raise
        except OSError as error:
            raise Closed(str(error)) from error
        if not chunk:
            if self._waiting:
                raise Broken("it ended in the middle of a message")
            raise Closed("it has ended")
        self._waiting += chunk

    def _next(self) -> dict[str, Any] | None:
        if len(self._waiting) < _HEADER.size:
            return None
        (length,) = _HEADER.unpack_from(self._waiting)
        end = _HEADER.size + length
        if length > self._largest:
            raise Broken(f"a message of {length} bytes was announced")
        if len(self._waiting) < end:
            return None
        body = self._waiting[_HEADER.size : end]
        del self._waiting[:end]
        try:
            message = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise Broken("it is no JSON") from error
        if not isinstance(message, dict):
            raise Broken("it is no JSON object")
        return message


def signed(message: dict[str, Any], secret: bytes, request: dict[str, Any]) -> dict[str, Any]:
    """The message with a proof that whoever sent it knows the secret, and answers this request and no other."""
    body = json.dumps(message)
    return {"body": body, "proof": _proof(body, secret, request)}


def opened(envelope: dict[str, Any], secret: bytes, request: dict[str, Any]) -> dict[str, Any]:
    """What was signed.

    Raises:
        Broken: the proof is missing or wrong.
    """
    body, proof = envelope.get("body"), envelope.get("proof")
    if not isinstance(body, str) or not isinstance(proof, str):
        raise Broken("a message without a proof")
    if not compare_digest(proof.encode("utf-8", "replace"), _proof(body, secret, request).encode()):
        raise Broken("a message with a wrong proof")
    return json.loads(body)


def _proof(body: str, secret: bytes, request: dict[str, Any]) -> str:
    return _blake2b(f"{json.dumps(request)}\n{body}".encode("utf-8", "replace"), key=secret).hexdigest()
