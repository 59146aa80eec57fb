"""Exceptions, with the texts that the programs print."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from collections.abc import Sequence

    from ackwise._results import Results


class Diagnostic(typing.NamedTuple):
    """A mistake in a scenario.

    Attributes
    ----------
    line : int
        Line in the text, from 1.
    column : int
        Column in characters, from 1.
    message : str
        What is wrong, and how to mend it.
    """

    line: int
    column: int
    message: str


class Error(Exception):
    """The base class of the exceptions of this package."""


class ScenarioError(Error, ValueError):
    """A scenario that cannot be read, has mistakes, or asks an engine for what it cannot do.

    Its text is that of ``ackwise-lab``: file, line and column, the line, and what is wrong.

    Parameters
    ----------
    message : str
        The text.
    diagnostics : sequence of (int, int, str)
        Line, column and message of each mistake.

    Attributes
    ----------
    diagnostics : list of Diagnostic
        Every mistake with its place; empty if the error is not about a place.
    """

    def __init__(self, message: str, diagnostics: Sequence[tuple[int, int, str]] = ()) -> None:
        super().__init__(message)
        self.diagnostics = [Diagnostic(*place) for place in diagnostics]


class TooLargeError(Error, ValueError):
    """Runs that would take more events or memory than a limit allows; nothing was run."""


class PolicyError(Error, ValueError):
    """A policy or a parameter that does not exist, or a value that is out of bounds."""


class CaptureError(Error, ValueError):
    """A capture that cannot be read."""


class ProgramError(Error, RuntimeError):
    """``ackwise-lab``, which runs virtual and live scenarios on Linux, is missing or has failed."""


class StoreError(Error, RuntimeError):
    """A directory of results that cannot be read or written, or that a worker does not see."""


class RunError(Error, RuntimeError):
    """Runs that had errors, so that their numbers are not to be trusted.

    Parameters
    ----------
    message : str
        How many of the runs had errors.
    results : Results
        All runs; ``results.errors`` says what went wrong.

    Attributes
    ----------
    results : Results
        All runs.
    """

    def __init__(self, message: str, results: Results) -> None:
        super().__init__(message)
        self.results = results

    def __reduce__(self) -> tuple[typing.Any, ...]:
        return type(self), (str(self), self.results)
