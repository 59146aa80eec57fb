"""How many runs a second Dask brings through, and what handing them out costs.

    python bench/sweep.py [RUNS [WORKERS...]]

Workers are processes of this machine with a thread each. What is printed of them is measured in
them: the time in runs and between the chunks of a thread, from the second chunk on. `chunks/s` is
how many a scheduler and a client hand out at most, if a chunk has nothing to do.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import distributed

import ackwise
from ackwise import _native, _sweep

ABOUT_S = 0.010
LIMITS = _native.MAX_EVENTS, _native.MAX_MEMORY


def scenario(runs: int) -> ackwise.Scenario:
    """Return so many runs, of some 10 ms each on this machine."""
    seeds = {"sweep.seed": list(range(1, runs // 2 + 1))}
    lossy = {"link.wan.forward.loss": "0.1 %", "scenario.duration": "1 s"}
    base = ackwise.Scenario.example().with_(**lossy)
    base.run(jobs=1)
    began_s = time.process_time()
    for _ in range(20):
        base.run(jobs=1)
    run_s = (time.process_time() - began_s) / 40
    duration = f"{round(1000 * ABOUT_S / run_s)} ms"
    return base.with_(**{"scenario.duration": duration, **seeds})


def alone(swept: ackwise.Scenario, runs: int) -> None:
    """Print what a run takes without any cluster, and what its file takes."""
    with tempfile.TemporaryDirectory() as directory:
        native = _native.Sweep(swept._scenario, Path(directory))
        chosen = swept.runs()[:runs]
        began_s = time.perf_counter()
        swept._scenario.simulate(
            chosen, jobs=1, max_events=LIMITS[0], max_memory=LIMITS[1], policies=[]
        )
        simulated_s = time.perf_counter() - began_s
        places, _ = native.places(chosen)
        began_s = time.perf_counter()
        native.run(places, *LIMITS)
        kept_s = time.perf_counter() - began_s
        files = list(Path(directory).glob("*.parquet"))
        size = sum(it.stat().st_size for it in files) / len(files)
    print(f"alone: {1000 * simulated_s / runs:.2f} ms a run; with its file, of {size / 1000:.1f} kB, "
          f"{1000 * kept_s / runs:.2f} ms")


class OneByOne(_sweep.Pace):
    """Chunks of a run each."""

    def take(self, left: int, threads: int) -> int:
        """Return 1."""
        return min(left, 1)


def on_workers(swept: ackwise.Scenario, count: int) -> None:
    """Print what so many workers bring through."""
    with tempfile.TemporaryDirectory() as directory, distributed.LocalCluster(
        n_workers=count,
        threads_per_worker=1,
        host="127.0.0.1",
        protocol="tcp://",
        dashboard_address=None,
        memory_limit=0,
    ) as cluster, distributed.Client(cluster) as client:
        native = _native.Sweep(swept._scenario, Path(directory))
        file = _sweep._put(swept._scenario, Path(directory), native.set)
        plan = _sweep.Plan(directory, file, native.set, *LIMITS)
        places, missing = native.places(swept.runs())
        assert places == missing
        driver = _sweep.Driver(client, plan, missing)
        began_s = time.perf_counter()
        driver.run(lambda place: None)
        took_s = time.perf_counter() - began_s
        pace = driver.pace
        # All is there, so that nothing is left but to hand out.
        idle = _sweep.Driver(client, plan, places)
        idle.pace, usual = OneByOne(), _sweep.AHEAD
        _sweep.AHEAD = 500
        began_s = time.perf_counter()
        idle.run(lambda place: None)
        per_s = idle.pace.chunks / (time.perf_counter() - began_s)
        _sweep.AHEAD = usual
        print(f"{count:7} {pace.runs:6} {pace.runs / took_s:8.0f} {1000 * pace.busy_s / pace.runs:8.2f} "
              f"{pace.largest:7} {1000 * pace.between_s / max(pace.chunks - count, 1):11.2f} "
              f"{100 * pace.overhead:8.2f} % {per_s:9.0f}")


def main() -> None:
    """Measure."""
    arguments = [int(it) for it in sys.argv[1:]]
    runs, workers = arguments[0] if arguments else 4000, arguments[1:] or [1, 2]
    swept = scenario(runs)
    alone(swept, 200)
    print("workers   runs   runs/s   ms/run  chunk  ms between  overhead  chunks/s")
    for count in workers:
        on_workers(swept, count)


if __name__ == "__main__":
    main()
