"""Runs on the simulator, held to the program's records."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Program

import ackwise
from ackwise import Progress, Results, Scenario

CASES: list[tuple[str, dict[str, Any], list[str]]] = [
    (
        "scenarios/asymmetric.toml",
        {"cc": ["cubic"], "duration": "3 s"},
        ["--cc", "cubic", "--duration", "3s"],
    ),
    (
        "scenarios/symmetric.toml",
        {"cc": "bbr", "arms": ["baseline", "adaptive"], "duration": "2 s"},
        ["--cc", "bbr", "--arm", "baseline", "--arm", "adaptive", "--duration", "2s"],
    ),
    ("scenarios/short-flows.toml", {"arms": "baseline", "cc": "cubic"}, ["--arm", "baseline", "--cc", "cubic"]),
    ("scenarios/request-response.toml", {}, []),
    ("scenarios/wifi.toml", {"duration": "1 s", "cc": "cubic"}, ["--duration", "1s", "--cc", "cubic"]),
    ("scenarios/small-buffer.toml", {"duration": "2 s"}, ["--duration", "2s"]),
]

# Columns of a run that are called otherwise in the record, by where they are there.
NESTED = {
    "completed": ("completion", "count"),
    "unfinished": ("completion", "unfinished"),
    "late": ("completion", "late"),
    "content_ok": ("content", "ok"),
    "content_sha256": ("content", "sha256"),
    **{f"acks_{kind}": ("acks", kind) for kind in ("pure", "sack", "dup", "window_update", "old", "other")},
    **{
        f"{name}_{part}{unit}": (*way, part)
        for name, way in (("rtt", ("rtt_us",)), ("completion", ("completion", "time_us")))
        for part, unit in (("p50", "_us"), ("p99", "_us"), ("min", "_us"), ("mean", "_us"), ("max", "_us"), ("count", ""))
    },
}


def in_record(run: dict[str, Any], column: str) -> Any:
    """Return what the record has for a column."""
    if column.startswith("point."):
        return run.get("point", {}).get(column.removeprefix("point."))
    value: Any = run
    for key in NESTED.get(column, (column,)):
        value = value.get(key) if isinstance(value, dict) else None
    if column == "unfinished" and value is None and run.get("completion"):
        return 0
    return value


@pytest.mark.parametrize(("file", "given", "arguments"), CASES, ids=lambda it: str(it)[:40])
def test_a_run_is_the_programs_to_the_byte(
    lab: Program, file: str, given: dict[str, Any], arguments: list[str]
) -> None:
    results = Scenario.load(file).run(on="sim", **given)
    printed = lab.run("run", file, "--format", "json", *arguments)[0]
    assert results.to_json() == printed
    # And the table has the figures of the record, in rows of the same order.
    record = json.loads(printed)
    rows = results.to_dicts()
    assert len(rows) == len(record["runs"]) == len(results) > 0
    looked_at = 0
    for row, run in zip(rows, record["runs"]):
        assert row.pop("engine") == record["engine"] == "sim"
        assert row.pop("scenario") == record["scenario"]["name"]
        assert row.pop("errors") == run.get("errors", [])
        datapath = row.pop("datapath_json")
        assert (json.loads(datapath) if datapath else None) == run.get("datapath")
        for name in ("cpu_process_s", "cpu_stack_s", "link_lateness_p99_us"):
            assert row.pop(name) is None, "the simulator does not know it"
        for column, value in row.items():
            assert value == in_record(run, column), column
            looked_at += value is not None
    assert looked_at > 15 * len(rows)


def test_a_record_is_read_again(lab: Program, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    arguments = ["--arm", "adaptive", "--duration", "1s", "--output", str(file)]
    printed = lab.run("run", "scenarios/quick.toml", *arguments)[0]
    results = Results.load(file)
    assert results.to_json() == file.read_text()
    assert str(results) == lab.run("report", file)[0]
    assert str(results).splitlines()[0] in printed
    with pytest.raises(ackwise.Error, match="this is not a report of ackwise"):
        Results.from_json("{")


def test_series_queues_and_flows_are_those_of_the_record() -> None:
    chosen = {"cc": "cubic", "arms": "adaptive", "seed": 1, "duration": "2 s"}
    lossy = Scenario.load("scenarios/lossy.toml").with_(
        **{"sweep.link": None, "link.radio.forward.loss": "1 %"}
    )
    results = lossy.run(**chosen)  # type: ignore[arg-type]
    (run,) = results.record["runs"]
    series = results.to_dicts("series")
    assert [it["t_s"] for it in series] == run["series"]["t_s"]
    for name in ("goodput_bps", "cwnd_segments", "rtt_us", "ack_rate_hz"):
        assert [it[name] for it in series] == run["series"][name], name
    queues = results.to_dicts("queues")
    assert [it["queue"] for it in queues] == [it["name"] for it in run["queues"]]
    assert [it["losses"] for it in queues] == [it.get("losses") for it in run["queues"]]
    lengths = [it["length_packets"] for it in results.to_dicts("queue_series")]
    assert lengths == [length for it in run["queues"] for length in it.get("length_packets", [])]
    assert len(lengths) > 10
    stretch = [(it["segments"], it["acks"]) for it in results.to_dicts("stretch")]
    assert stretch == [(it["segments"], it["acks"]) for it in run["stretch"]]
    (flow,) = results.to_dicts("flows")
    assert flow["flow"] == run["flow"] and flow["bytes"] == run["bytes"]
    several = Scenario.load("scenarios/wifi.toml").run(cc="cubic", duration="1 s")
    assert [it["bytes"] for it in several.to_dicts("flows")] == [
        part["bytes"] for run in several.record["runs"] for part in run.get("flows", [run])
    ]


def test_points_of_a_sweep_are_columns() -> None:
    scenario = Scenario.load("scenarios/quick.toml").with_(
        **{"sweep.link.wan.forward.loss": ["0.1 %", "2 %"]}
    )
    rows = scenario.run(arms="baseline", duration="1 s").to_dicts()
    assert [row["point.link.wan.forward.loss"] for row in rows] == ["0.1 %", "2 %"]


def test_progress_is_told() -> None:
    news: list[Progress] = []
    scenario = Scenario.load("scenarios/quick.toml")
    scenario.run(progress=news.append, jobs=1, duration="2 s")
    runs = scenario.runs()
    assert [it.run for it in news if it.state == "started"] == runs
    assert [it.run for it in news if it.state == "finished"] == runs
    first = [it.elapsed_s for it in news if it.run == runs[0] and it.state == "running"]
    assert first == sorted(first) and len(first) > 100
    assert {it.total for it in news} == {2} and {it.duration_s for it in news} == {2.0}


def test_an_exception_of_an_observer_ends_the_runs() -> None:
    def refuse(_: Progress) -> None:
        raise LookupError("enough")

    scenario = Scenario.load("scenarios/quick.toml")
    with pytest.raises(LookupError, match="enough"):
        scenario.run(progress=refuse, duration="20 min")


def test_the_interpreter_is_free_while_it_runs() -> None:
    counted, stop = 0, threading.Event()

    def count() -> None:
        nonlocal counted
        while not stop.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    before = counted
    Scenario.load("scenarios/quick.toml").run(jobs=1, duration="60 s")
    during = counted - before
    stop.set()
    thread.join()
    assert during > 10


INTERRUPTED = """
import ackwise, sys
def told(news):
    if news.state == "running":
        print("runs", flush=True)
try:
    ackwise.Scenario.load("scenarios/quick.toml").run(duration="24 h", progress=told, max_events=10**15)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(7)
"""


@pytest.mark.linux
def test_an_interrupt_ends_a_run() -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        process.send_signal(signal.SIGINT)
        said = process.stdout.read().splitlines()
        assert process.wait(timeout=120) == 7
    assert said[-1] == "interrupted"


def test_what_is_too_large_has_the_programs_text(lab: Program) -> None:
    with pytest.raises(ackwise.TooLargeError) as caught:
        Scenario.load("scenarios/quick.toml").run(max_events=1000)
    assert str(caught.value) == lab.refuses(
        "run", "scenarios/quick.toml", "--max-events", "1000"
    )


def test_runs_with_errors_are_an_exception_with_the_results(lab: Program) -> None:
    file = "scenarios/request-response.toml"
    with pytest.raises(ackwise.RunError) as caught:
        Scenario.load(file).run(duration="5 s")
    said = lab.refuses("run", file, "--duration", "5s", "--format", "json", code=1)
    assert said.endswith(f"ackwise-lab: {caught.value}")
    results = caught.value.results
    assert len(results) == len(results.errors) == 3
    assert "exchanges were left when the run ended" in results.errors["baseline/cubic/1"][0]
