"""Sweeps on many machines: the runs of a scenario on Dask, into a directory that all share."""

from __future__ import annotations

import collections
import functools
import math
import os
import shutil
import tempfile
import threading
import time
import typing
import uuid
from pathlib import Path

from ackwise import _native, _program, _progress
from ackwise._errors import Error, RunError, ScenarioError, StoreError, TooLargeError
from ackwise._results import Results
from ackwise._scenario import Scenario, chosen, with_duration

if typing.TYPE_CHECKING:
    from collections.abc import Iterable

    from ackwise._progress import Observer
    from ackwise._scenario import Duration, Names, Points, Seeds

    Failed = list[tuple[int, str]]

# What may be lost between the chunks of a thread, as a share of the time in runs: aim at half.
OVERHEAD = 0.05
# A chunk is not longer, whatever handing out costs, so that one hears of it now and then. To a
# worker that is killed it does not matter: the results of a chunk are kept one by one.
MAX_CHUNK_S = 30.0
# Chunks that a thread has or waits for, so that none waits for the network.
AHEAD = 2
# A chunk takes so many times as long as the client needs to hand one out to each thread: it, and
# the scheduler beside it, have to keep pace with all of them.
PACE = 4
# So many are handed out before it is looked what has come back.
BURST = 32
# So often it is asked who works.
LOOK_S = 1.0


class Plan(typing.NamedTuple):
    """What a worker is told of a sweep; the scenario lies in the directory."""

    into: str
    file: str
    set: str
    max_events: int
    max_memory: int


class Done(typing.NamedTuple):
    """What became of a chunk."""

    thread: tuple[str, int]
    began_s: float
    ended_s: float
    failed: Failed


@functools.lru_cache(maxsize=4)
def _opened(plan: Plan) -> _native.Sweep:
    """Return the sweep, which a worker opens once."""
    file = Path(plan.into, plan.file)
    if not file.is_file():
        raise StoreError(
            f"{plan.into}: this worker does not see the scenario that the client put there\n"
            "  name a directory that all machines share, under the same path"
        )
    opened = _native.Sweep(_native.Scenario.load(file), Path(plan.into))
    if opened.set != plan.set:
        raise StoreError(
            f"the client writes the set {plan.set}, and this worker, with ackwise "
            f"{_native.VERSION}, would write {opened.set}\n"
            "  install the same version of ackwise everywhere"
        )
    return opened


def _chunk(plan: Plan, places: list[int]) -> Done:
    """Run some runs on a worker."""
    opened = _opened(plan)
    began_s = time.perf_counter()
    _, failed = opened.run(places, plan.max_events, plan.max_memory)
    return Done((_worker(), threading.get_ident()), began_s, time.perf_counter(), failed)


def _worker() -> str:
    from distributed import get_worker

    return str(get_worker().address)


class Pace:
    """How many runs a chunk has.

    At first it is one. A chunk tells when it began and ended, by the clock of its machine: between
    the end of one and the beginning of the next on the same thread lies what handing out costs.
    Chunks grow, at most to the double at a time, until that is a small share of the runs' time.
    Where there are very many threads, what bounds them is how fast one client hands chunks out.
    """

    def __init__(self) -> None:
        self.size = 1
        self.largest = 1
        self.runs = 0
        self.chunks = 0
        self.busy_s = 0.0
        self.between_s = 0.0
        self._ended: dict[tuple[str, int], float] = {}
        self._between: collections.deque[float] = collections.deque(maxlen=32)
        self._last: collections.deque[tuple[float, int]] = collections.deque(maxlen=32)

    def note(self, done: Done, runs: int, least_s: float = 0.0) -> None:
        """Take how long a chunk took; ``least_s`` is what a chunk should take at least."""
        busy_s = done.ended_s - done.began_s
        self.runs += runs
        self.chunks += 1
        self.largest = max(self.largest, runs)
        self.busy_s += busy_s
        self._last.append((busy_s, runs))
        before = self._ended.get(done.thread)
        self._ended[done.thread] = max(done.ended_s, before or 0.0)
        if before is not None and done.began_s >= before:
            self.between_s += done.began_s - before
            self._between.append(done.began_s - before)
        self.size = min(self._wanted(least_s), 2 * self.size)

    def _wanted(self, least_s: float) -> int:
        run_s = sum(busy_s for busy_s, _ in self._last) / sum(runs for _, runs in self._last)
        between_s = sum(self._between) / max(len(self._between), 1)
        chunk_s = min(max(between_s / (OVERHEAD / 2), least_s), MAX_CHUNK_S)
        return max(1, math.ceil(chunk_s / max(run_s, 1e-9)))

    def take(self, left: int, threads: int) -> int:
        """Return how many of those that are left are next: fewer at the end, so that all end."""
        share = math.ceil(left / (AHEAD * threads))
        return min(left, self.size, max(share, math.ceil(self.size / 8)))

    @property
    def overhead(self) -> float:
        """The share of the threads' time that lay between chunks."""
        return self.between_s / max(self.between_s + self.busy_s, 1e-9)


class Driver:
    """Hands the runs out, and takes what became of them."""

    def __init__(self, client: typing.Any, plan: Plan, places: Iterable[int]) -> None:
        import distributed

        self.pace = Pace()
        self.failed: Failed = []
        self._client = client
        self._plan = plan
        self._left = collections.deque(places)
        # Chunks that ended their workers, in parts.
        self._again: collections.deque[list[int]] = collections.deque()
        self._out: dict[typing.Any, list[int]] = {}
        self._done = distributed.as_completed(
            loop=client.loop, with_results=True, raise_errors=False
        )
        self._died = (distributed.scheduler.KilledWorker,)
        self._name = f"ackwise-{plan.set}-{uuid.uuid4().hex[:8]}"
        self._threads = 1
        self._looked_s = -math.inf
        # How long it took to hand out so many chunks.
        self._handing_s = 0.0
        self._handed = 0

    def run(self, tell: typing.Callable[[int], None]) -> None:
        """Run all; ``tell`` is called with the place of each that has ended."""
        try:
            self._supply()
            while self._out:
                for future, outcome in self._done.next_batch(block=not self._lacks()):
                    self._take(future, outcome, self._out.pop(future), tell)
                self._supply()
        except BaseException:
            self._client.cancel(list(self._out))
            raise

    def _lacks(self) -> bool:
        """Whether threads have or wait for less than they should."""
        return bool(self._again or self._left) and len(self._out) < AHEAD * self._threads

    def _supply(self) -> None:
        now_s = time.monotonic()
        if now_s - self._looked_s > LOOK_S:
            self._looked_s = now_s
            self._threads = max(1, sum(self._client.nthreads().values()))
        began_s = time.perf_counter()
        for _ in range(BURST):
            if not self._lacks():
                break
            if self._again:
                places = self._again.popleft()
            else:
                count = self.pace.take(len(self._left), self._threads)
                places = [self._left.popleft() for _ in range(count)]
            key = f"{self._name}-{uuid.uuid4().hex[:12]}"
            future = self._client.submit(_chunk, self._plan, places, key=key, pure=False)
            self._handed += 1
            self._out[future] = places
            self._done.add(future)
        self._handing_s += time.perf_counter() - began_s

    def _take(
        self,
        future: typing.Any,
        outcome: typing.Any,
        places: list[int],
        tell: typing.Callable[[int], None],
    ) -> None:
        # A result that came counts, although its worker died since and Dask calls it lost.
        if isinstance(outcome, Done):
            least_s = PACE * self._threads * self._handing_s / self._handed
            self.pace.note(outcome, len(places), least_s)
            self.failed += outcome.failed
            for place in places:
                tell(place)
            return
        if future.status == "lost":
            # The worker died that had the result; what it wrote is skipped.
            self._again.append(places)
            return
        error = future.exception() if future.status == "error" else None
        if isinstance(error, self._died) and len(places) > 1:
            middle = len(places) // 2
            self._again.extend((places[:middle], places[middle:]))
            return
        if isinstance(error, self._died):
            run = _opened(self._plan).id(places[0])
            raise Error(
                f"{run}: the workers that ran it died, one after another ({error})\n"
                "  their logs say why; a run may take too much memory"
            ) from error
        if error is not None:
            raise error
        raise Error(
            f"Dask reports a chunk of runs as {future.status}\n"
            "  repeat the call, which runs what is missing"
        )


@typing.overload
def sweep(
    scenario: Scenario,
    *,
    into: str | os.PathLike[str],
    client: typing.Any = None,
    cc: Names = (),
    arms: Names = (),
    seed: Seeds = (),
    point: Points = (),
    duration: Duration | None = None,
    max_events: int = _native.MAX_EVENTS,
    max_memory: int = _native.MAX_MEMORY,
    collect: typing.Literal[True] = True,
    progress: bool | Observer | None = None,
) -> Results: ...


@typing.overload
def sweep(
    scenario: Scenario,
    *,
    into: str | os.PathLike[str],
    client: typing.Any = None,
    cc: Names = (),
    arms: Names = (),
    seed: Seeds = (),
    point: Points = (),
    duration: Duration | None = None,
    max_events: int = _native.MAX_EVENTS,
    max_memory: int = _native.MAX_MEMORY,
    collect: typing.Literal[False],
    progress: bool | Observer | None = None,
) -> None: ...


def sweep(
    scenario: Scenario,
    *,
    into: str | os.PathLike[str],
    client: typing.Any = None,
    cc: Names = (),
    arms: Names = (),
    seed: Seeds = (),
    point: Points = (),
    duration: Duration | None = None,
    max_events: int = _native.MAX_EVENTS,
    max_memory: int = _native.MAX_MEMORY,
    collect: bool = True,
    progress: bool | Observer | None = None,
) -> Results | None:
    """Run a scenario on the simulator, on the workers of a Dask cluster.

    Each result is a file in a directory that all workers and the client share, named after what
    determines it (``docs/clusters.md``). Runs that have a result are not repeated, so the same
    call resumes a sweep that was interrupted. If a worker dies, others repeat the runs that it was
    executing. ``ackwise-lab run --into`` can fill the same directory.

    Workers get chunks of runs, which grow until less than 5 % of their time is lost between
    chunks; the measured times decide.

    Parameters
    ----------
    scenario : Scenario
        The scenario. A copy of it is written to the directory, for the workers.
    into : path-like
        The directory; it is created if it does not exist.
    client : distributed.Client, optional
        The cluster; the client that was made last if left out. Workers may come and go. Each of
        their threads executes one run at a time, so ``--nthreads`` should be the number of cores.
    cc, arms, seed, point, duration, max_events, progress : optional
        As :meth:`Scenario.run` takes them; progress is told of finished runs only.
    max_memory : int, optional
        Refuse a run that would take more memory than this, bytes.
    collect : bool
        ``False``: read nothing back, and return ``None``. For more runs than fit into a record in
        memory; any reader of Parquet can read the directory.

    Returns
    -------
    Results or None
        A row for each run, as :meth:`Scenario.run` would return them on one machine.

    Raises
    ------
    ScenarioError
        Nothing matches, or the simulator has no model of what the scenario asks for.
    TooLargeError
        A run would take more than a limit allows.
    RunError
        Runs had errors, and have no files; the exception has the results (without ``collect``,
        those of these runs).
    StoreError
        The directory cannot be written, or a worker does not see it.

    Examples
    --------
    >>> import tempfile
    >>> import ackwise
    >>> from distributed import Client
    >>> scenario = ackwise.Scenario.example()
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     with tempfile.TemporaryDirectory() as into:
    ...         results = ackwise.sweep(scenario, client=client, into=into)
    >>> results.to_json() == scenario.run().to_json()
    True
    """
    client = _client(client)
    native = with_duration(scenario, duration)
    runs = native.select("sim", *chosen(cc, arms, seed, point))
    directory = Path(into).absolute()
    opened = _native.Sweep(native, directory)
    plan = Plan(str(directory), _put(native, directory, opened.set), opened.set, max_events, max_memory)
    places, missing = opened.places(runs)
    numbers = {place: number for number, place in enumerate(places)}
    bar = None if progress is False or callable(progress) else _progress.bar(len(runs))
    observer = progress if callable(progress) else bar

    def tell(place: int) -> None:
        if observer is not None:
            number, took_s = numbers[place], native.duration_s
            news = _progress.Progress("finished", runs[number], number, len(runs), took_s, took_s)
            observer(news)

    try:
        for place in sorted(set(places).difference(missing)):
            tell(place)
        driver = Driver(client, plan, missing)
        driver.run(tell)
    except (ScenarioError, TooLargeError) as error:
        # A worker reads the scenario from the directory.
        said = str(error).replace(str(directory / plan.file), str(native.path))
        if isinstance(error, ScenarioError):
            raise ScenarioError(said, error.diagnostics) from None
        raise TooLargeError(said) from None
    finally:
        if bar is not None:
            bar.close()
    failed = sorted(driver.failed)
    if collect:
        results = Results(opened.record(places, failed))
    elif failed:
        results = Results(opened.record([place for place, _ in failed], failed))
    else:
        return None
    if failed:
        raise RunError(
            f"{len(failed)} of {len(runs)} runs had errors; their numbers are not to be trusted",
            results,
        )
    return results


def _client(client: typing.Any) -> typing.Any:
    try:
        import distributed
    except ImportError:
        raise ImportError("sweep needs Dask: pip install 'ackwise[dask]'") from None
    if client is None:
        client = distributed.default_client()
    if not isinstance(client, distributed.Client) or client.asynchronous:
        raise TypeError(
            f"client must be a distributed.Client that is not asynchronous, not {client!r}"
        )
    return client


def _put(scenario: _native.Scenario, directory: Path, set_id: str) -> str:
    """Put the scenario into the directory, under a name of its own; return where it is there."""
    laid = directory / f".sweep-{set_id}"
    partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=directory))
    try:
        file = _program.lay(scenario, partial, "scenario.toml").relative_to(partial)
        # Others run as other users.
        partial.chmod(0o755)
        try:
            partial.rename(laid)
        except OSError:
            # It was there, and is the same.
            if not (laid / file).is_file():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return str(Path(laid.name) / file)
