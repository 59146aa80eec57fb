"""Sweeps on Dask: a real scheduler and real workers over TCP, and whatever happens to them, the
files are those of one process."""

from __future__ import annotations

import collections
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import distributed
import pytest
from conftest import Program

import ackwise
from ackwise import Progress, Results, RunError, Scenario, ScenarioError, StoreError, _sweep
from ackwise._sweep import Done, Driver, Pace, Plan

pytestmark = pytest.mark.filterwarnings("default")

SHORT = {
    "scenario.duration": "400 ms",
    "link.wan.forward.rate": "20 Mbit/s",
    "link.wan.forward.loss": "0.5 %",
}


def short(runs: int) -> Scenario:
    """Return a scenario of so many runs, of a few ms each."""
    seeds = list(range(1, runs // 2 + 1))
    scenario = Scenario.example().with_(**SHORT, **{"sweep.seed": seeds})
    assert len(scenario.runs()) == runs
    return scenario


class Cluster:
    """A scheduler and workers, each a process of its own."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.directory = directory
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self._environment = {**os.environ, **settings, "PYTHONWARNINGS": "ignore"}
        self._log = (directory / "log").open("wb")
        self._file = directory / "scheduler.json"
        arguments = ["--port", "0", "--scheduler-file", str(self._file)]
        self._scheduler = self._start("scheduler", *arguments)
        self._until(self._file.exists)
        self.client = distributed.Client(scheduler_file=str(self._file), set_as_default=False)

    def _start(self, what: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--host", "127.0.0.1"]
        return subprocess.Popen(
            [*command, "--no-dashboard", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env=self._environment,
            cwd=self.directory,
        )

    def _until(self, is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + 120
        while not is_so():
            assert time.monotonic() < end, (self.directory / "log").read_text()
            time.sleep(0.02)

    def join(self, *names: str) -> None:
        """Start workers, and wait until the scheduler has them."""
        arguments = ["--scheduler-file", str(self._file), "--nthreads", "1", "--no-nanny"]
        arguments += ["--memory-limit", "0", "--local-directory", str(self.directory)]
        for name in names:
            self.workers[name] = self._start("worker", *arguments, "--name", name)
        self._until(lambda: set(names) <= set(self.known()))

    def known(self) -> dict[str, str]:
        """Return the addresses of the workers that the scheduler has, by their names."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return {it["name"]: address for address, it in workers.items()}

    def kill(self, name: str) -> None:
        """Kill a worker, in the middle of its work."""
        process = self.workers[name]
        process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=60) == -signal.SIGKILL
        self._until(lambda: name not in self.known())

    def close(self) -> None:
        self.client.close()
        for process in (*self.workers.values(), self._scheduler):
            process.kill()
            process.wait()
        self._log.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.join("first", "second")
        yield made
    finally:
        made.close()


def digest(directory: Path) -> tuple[int, str]:
    """Return how many results a directory has, and a hash of their names and bytes."""
    files = sorted(directory.glob("*.parquet"))
    whole = hashlib.sha256()
    for file in files:
        whole.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return len(files), whole.hexdigest()


def merged(lab: Program, directory: Path) -> str:
    """Return the hash of the table that the program makes of a directory."""
    table = directory.with_suffix(".parquet")
    lab.run("report", "--merge", directory, "--parquet", table)
    return hashlib.sha256(table.read_bytes()).hexdigest()


def test_2000_runs_are_the_same_on_one_process_on_workers_and_whoever_is_killed(
    lab: Program, tmp_path: Path, cluster: Cluster
) -> None:
    scenario = short(2000)
    file = tmp_path / "short.toml"
    file.write_text(scenario.text)

    # One process, that of the program.
    one, table = tmp_path / "one", tmp_path / "table.parquet"
    lab.run("run", file, "--into", one, "--jobs", "1")
    lab.run("run", file, "--jobs", "1", "--output", tmp_path / "record.json", "--parquet", table)
    expected = digest(one), hashlib.sha256(table.read_bytes()).hexdigest()
    record = (tmp_path / "record.json").read_text()
    assert expected[0][0] == 2000 and merged(lab, one) == expected[1]

    # Two workers.
    two = tmp_path / "two"
    news: list[Progress] = []
    results = ackwise.sweep(scenario, client=cluster.client, into=two, progress=news.append)
    assert (digest(two), merged(lab, two)) == expected
    assert results.to_json() == record
    assert sorted(it.run for it in news) == sorted(scenario.runs())
    assert {it.number for it in news} == set(range(2000)) and {it.total for it in news} == {2000}
    opened = cluster.client.run(_sweep._opened.cache_info)
    assert [it.currsize for it in opened.values()] == [1, 1], "both have worked"

    # One is killed and another joins, while it goes on.
    three = tmp_path / "three"
    seen = 0

    def disturb(_: Progress) -> None:
        nonlocal seen
        seen += 1
        if seen == 500:
            processing = cluster.client.processing(cluster.known()["first"])
            assert any(processing.values()), "it has work"
            cluster.kill("first")
            cluster.join("third")

    results = ackwise.sweep(scenario, client=cluster.client, into=three, progress=disturb)
    assert (digest(three), merged(lab, three)) == expected
    assert results.to_json() == record
    assert seen == 2000 and sorted(cluster.known()) == ["second", "third"]
    opened = cluster.client.run(_sweep._opened.cache_info)
    assert opened[cluster.known()["third"]].currsize == 1, "it has worked"
    # What was being written when its worker was killed has no name of a result.
    assert len(list(three.iterdir())) >= 2001


def test_a_chunk_that_ended_its_worker_is_shared_out_again(tmp_path: Path) -> None:
    none = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    directory = tmp_path / "cluster"
    directory.mkdir()
    cluster = Cluster(directory, **none)
    try:
        cluster.join("first", "second")
        scenario, seen = short(300), 0

        def disturb(_: Progress) -> None:
            nonlocal seen
            seen += 1
            if seen == 100:
                cluster.kill("first")

        into = tmp_path / "into"
        results = ackwise.sweep(scenario, client=cluster.client, into=into, progress=disturb)
        assert results.to_json() == scenario.run(jobs=1).to_json()
        assert seen == 300 and digest(into)[0] == 300
    finally:
        cluster.close()


def test_what_is_there_is_not_run_again(lab: Program, tmp_path: Path, cluster: Cluster) -> None:
    scenario = short(40)
    file, into = tmp_path / "short.toml", tmp_path / "into"
    file.write_text(scenario.text)
    said = json.loads(lab.run("run", file, "--into", into, "--shard", "1/4", "--format", "json")[0])
    assert said["added"] == 10
    before = {it: it.stat().st_mtime_ns for it in into.glob("*.parquet")}
    results = ackwise.sweep(scenario, client=cluster.client, into=into)
    assert results.to_json() == scenario.run().to_json()
    assert digest(into)[0] == 40
    assert before == {it: it.stat().st_mtime_ns for it in before}
    # A part of the runs, and nothing but those; without reading them, too.
    part = ackwise.sweep(scenario, client=cluster.client, into=into, arms="adaptive", seed=[2, 3])
    assert part.to_json() == scenario.run(arms="adaptive", seed=[2, 3]).to_json()
    news: list[Progress] = []
    ackwise.sweep(scenario, client=cluster.client, into=into, collect=False, progress=news.append)
    assert len(news) == 40
    # Another duration is another set, in the same directory.
    longer = ackwise.sweep(scenario, client=cluster.client, into=into, duration="500 ms", seed=1)
    assert longer.to_json() == scenario.run(duration="500 ms", seed=1).to_json()
    assert digest(into)[0] == 42
    assert "2 sets" in lab.refuses("report", "--merge", into)


def test_a_trace_goes_along(tmp_path: Path, cluster: Cluster) -> None:
    scenario = Scenario.load("scenarios/cross-check-changing.toml")
    assert scenario._scenario.traces(), "this scenario has to read a trace"
    arm, cc, seed = scenario.runs()[0].split("/")[:3]
    chosen: dict[str, Any] = {"arms": arm, "cc": cc, "seed": seed, "duration": "2 s"}
    results = ackwise.sweep(scenario, client=cluster.client, into=tmp_path, **chosen)
    assert results.to_json() == scenario.run(**chosen).to_json()


def test_errors_are_those_of_run(tmp_path: Path, cluster: Cluster) -> None:
    failing = Scenario.load("scenarios/request-response.toml")
    caught: list[RunError] = []
    runs: list[Callable[[], object]] = [
        lambda: failing.run(duration="5 s"),
        lambda: ackwise.sweep(failing, client=cluster.client, into=tmp_path, duration="5 s"),
    ]
    for run in runs:
        with pytest.raises(RunError) as error:
            run()
        caught.append(error.value)
    assert str(caught[0]) == str(caught[1])
    assert caught[0].results.to_json() == caught[1].results.to_json()
    assert digest(tmp_path)[0] == 0, "what had errors has no result"

    def both(scenario: Scenario, **given: Any) -> list[Exception]:
        errors: list[Exception] = []
        for run in (
            lambda: scenario.run(**given),
            lambda: ackwise.sweep(scenario, client=cluster.client, into=tmp_path, **given),
        ):
            with pytest.raises(ackwise.Error) as error:
                run()
            errors.append(error.value)
        assert type(errors[0]) is type(errors[1]) and str(errors[0]) == str(errors[1])
        return errors

    both(short(40), arms="adaptive", seed=1, max_events=1000)
    both(short(40), arms="none")
    unknown = both(Scenario.load("scenarios/quick.toml").with_(**{"sweep.cc": ["westwood"]}))
    places = [it.diagnostics for it in unknown if isinstance(it, ScenarioError)]
    assert len(places) == 2 and places[0] == places[1] != []


def test_an_exception_of_an_observer_ends_the_sweep(tmp_path: Path, cluster: Cluster) -> None:
    def refuse(_: Progress) -> None:
        raise LookupError("enough")

    scenario = short(2000)
    with pytest.raises(LookupError, match="enough"):
        ackwise.sweep(scenario, client=cluster.client, into=tmp_path, progress=refuse)
    cluster._until(lambda: not any(cluster.client.processing().values()))
    assert digest(tmp_path)[0] < 2000


def test_a_worker_has_to_see_the_directory(tmp_path: Path) -> None:
    scenario = short(40)
    native = ackwise._native.Sweep(scenario._scenario, tmp_path)
    file = _sweep._put(scenario._scenario, tmp_path, native.set)
    assert _sweep._put(scenario._scenario, tmp_path, native.set) == file, "a second one finds it"
    assert [it.name for it in tmp_path.iterdir()] == [f".sweep-{native.set}"]
    plan = Plan(str(tmp_path), file, native.set, 10**10, 2**32)
    assert _sweep._opened(plan).set == native.set
    with pytest.raises(StoreError, match="does not see the scenario .*\n.*all machines share"):
        _sweep._opened(plan._replace(into=str(tmp_path / "other")))
    with pytest.raises(StoreError, match="0123456789ab, and this worker, with ackwise .*\n.*same version"):
        _sweep._opened(plan._replace(set="0123456789ab"))
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file"):
        ackwise._native.Sweep(scenario._scenario, tmp_path / "file")
    with pytest.raises(IndexError, match="run 40 of 40"):
        native.run([40], 10**10, 2**32)


def test_a_client_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match="a distributed.Client that is not asynchronous, not 7"):
        ackwise.sweep(short(2), client=7, into=tmp_path)
    with pytest.raises(ValueError, match="No client"):
        ackwise.sweep(short(2), into=tmp_path)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'ackwise\[dask\]'"):
        ackwise.sweep(short(2), into=tmp_path)


def test_a_worker_that_dies_with_a_result_loses_nothing() -> None:
    """Dask calls a result lost once its worker is gone, although it was told before."""
    driver = Driver.__new__(Driver)
    vars(driver).update(pace=Pace(), failed=[], _threads=1, _handing_s=0.0, _handed=1)
    driver._again = collections.deque()
    lost, told = types.SimpleNamespace(status="lost"), list[int]()
    driver._take(lost, Done(("worker", 1), 1.0, 2.0, []), [3, 4], told.append)
    assert (told, list(driver._again)) == ([3, 4], [])
    driver._take(lost, None, [5, 6], told.append)
    assert (told, list(driver._again)) == ([3, 4], [[5, 6]])


def paced(run_s: float, between_s: float, chunks: int = 60, pace: Pace | None = None) -> Pace:
    """Return a pace after chunks on a thread whose runs take so long."""
    pace = pace or Pace()
    now_s = 1000.0 * (1 + pace.runs)
    for _ in range(chunks):
        runs, now_s = pace.size, now_s + between_s
        ended_s = now_s + runs * run_s
        pace.note(Done(("tcp://a", 1), now_s, ended_s, []), runs)
        now_s = ended_s
    return pace


@pytest.mark.parametrize("between_s", [0.002, 0.01, 0.05])
def test_chunks_grow_until_the_overhead_is_small(between_s: float) -> None:
    pace = paced(0.01, between_s)
    assert between_s / (between_s + pace.size * 0.01) < 0.05
    # And not further than needed for half of it.
    assert pace.size <= between_s / (0.025 * 0.01) + 1
    # Runs that take long are handed out one by one.
    assert paced(10.0, between_s).size == 1
    # A chunk does not exceed half a minute, whatever handing out costs.
    assert paced(0.01, 100.0).size == 3000
    # It follows what is measured.
    assert paced(10.0, between_s, pace=pace).size == 1


def test_chunks_grow_step_by_step_and_shrink_at_the_end() -> None:
    pace, sizes = Pace(), []
    for _ in range(8):
        sizes.append(pace.size)
        paced(0.01, 0.02, chunks=1, pace=pace)
    assert sizes[:2] == [1, 1] and sizes[2:6] == [2, 4, 8, 16]
    # Of 1600 threads, if handing a chunk out takes 1 ms here: 4 * 1600 * 1 ms.
    many = Pace()
    for number in range(12):
        many.note(Done(("tcp://a", number), 0.0, 0.01 * many.size, []), many.size, 6.4)
    assert many.size == 640
    pace.size = 80
    assert pace.take(10_000, 4) == 80
    assert pace.take(160, 4) == 20
    assert pace.take(16, 4) == 10, "not below an eighth"
    assert pace.take(3, 4) == 3


def test_results_of_a_sweep_are_results(tmp_path: Path, cluster: Cluster) -> None:
    results = ackwise.sweep(short(4), client=cluster.client, into=tmp_path)
    assert isinstance(results, Results) and len(results.to_pandas()) == 4
