"""The progress of runs, for a callback or as a bar."""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable

if typing.TYPE_CHECKING:
    from typing_extensions import TypeAlias


class Progress(typing.NamedTuple):
    """News of one run; several may be in progress.

    Attributes
    ----------
    state : {'started', 'running', 'finished'}
        What happened.
    run : str
        The run's id, e.g. ``'adaptive/cubic/1'``.
    number : int
        Its index among all runs, from 0.
    total : int
        Number of runs.
    elapsed_s : float
        How far the run is, in seconds of the network's time.
    duration_s : float
        How long the run takes in all, in seconds of the network's time.
    """

    state: str
    run: str
    number: int
    total: int
    elapsed_s: float
    duration_s: float


Observer: TypeAlias = Callable[[Progress], object]

_Native: TypeAlias = Callable[
    [str, typing.Optional[str], int, typing.Optional[int], typing.Optional[float]], None
]


def native_observer(observer: Observer, runs: list[str], duration_s: float) -> _Native:
    """Return what the simulator calls, for an observer."""

    def tell(
        state: str,
        _run: str | None,
        index: int,
        _total: int | None,
        elapsed_s: float | None,
    ) -> None:
        if elapsed_s is None:
            elapsed_s = duration_s if state == "finished" else 0.0
        observer(Progress(state, runs[index], index, len(runs), elapsed_s, duration_s))

    return tell


class Bar:
    """A bar of tqdm over all runs together."""

    def __init__(self, runs: int, bar: typing.Any) -> None:
        self._done = [0.0] * runs
        self._bar = bar

    def __call__(self, news: Progress) -> None:
        share = 1.0 if news.state == "finished" else news.elapsed_s / news.duration_s
        step = min(share, 1.0) - self._done[news.number]
        if step > 0.0:
            self._done[news.number] += step
            self._bar.update(step)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()


def bar(runs: int) -> Bar | None:
    """Return a bar if somebody watches and tqdm is installed."""
    if not (sys.stderr.isatty() or _in_notebook()):
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    shape = "{l_bar}{bar}| {n:.1f}/{total} runs [{elapsed}<{remaining}]"
    return Bar(runs, tqdm(total=runs, bar_format=shape))


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and "IPKernelApp" in shell.config
