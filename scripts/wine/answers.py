"""Writes what the installed package ackwise says into a directory, to compare a system with another.

    python scripts/wine/answers.py INTO        in the root of the repository

Where there is no Linux, it also makes sure that what needs one is refused.
"""

import json
import sys
from pathlib import Path

import ackwise
from ackwise import _program

CAPTURES = [*sorted(Path("tests/data").glob("*.pcap")),
            *sorted(Path("crates/core/ackwise-tunnel/traces").glob("*.pcap.gz"))]  # fmt: skip
TABLES = ("runs", "flows", "series", "queues", "queue_series", "stretch", "nodes")


def scenarios(into: Path) -> None:
    """Records, pages and tables of runs on the simulator, and a scenario laid for a worker."""
    for name, chosen in {"asymmetric": {"duration": "5 s"}, "quick": {}, "wifi": {"cc": "cubic", "duration": "2 s"}}.items():
        text = Path(f"scenarios/{name}.toml").read_text(encoding="utf-8")
        results = ackwise.Scenario.from_toml(text, f"{name}.toml").run(**chosen)
        (into / f"{name}.json").write_bytes(results.to_json().encode())
        results.to_html(into / f"{name}.html")
        for table in TABLES:
            (into / f"{name}-{table}.json").write_bytes(json.dumps(results.to_dicts(table)).encode())
    traced = ackwise.Scenario.load("scenarios/cross-check-changing.toml")
    _program.lay(traced._scenario, into / "laid", "scenario.toml")


def events() -> list[ackwise.Event]:
    """A download of ten thousand segments with holes, as a policy hears of it."""
    found = []
    for number in range(1, 10_001):
        now_us = number * 130
        facts = {"mss": 1448, "srtt_us": 40_000, "hold_us": 10_000}
        found.append(ackwise.Event.data(now_us, bytes=1448, **facts))
        if number % 2 == 0:
            flags = ["out-of-order"] if number % 1000 < 4 else []
            found.append(ackwise.Event.ack(now_us + 7, segments=1 + number % 5, bytes=2896, flags=flags, **facts))
        if number % 333 == 0:
            found.append(ackwise.Event.deadline(now_us + 11, **facts))
    return found


def policies(into: Path) -> None:
    """What each policy says of the same events, and its state after each."""
    for info in ackwise.policies():
        policy = ackwise.Policy(info.name)
        lines = []
        for event in events():
            verdict = policy.step(event)
            lines.append(f"{verdict.kind} {verdict.hold_us} {verdict.reason} {policy.state.hex()}\n")
        (into / f"policy-{info.name}.txt").write_bytes("".join(lines).encode())


def captures(into: Path) -> None:
    """Analyses, of a file and of what is in it."""
    for path in CAPTURES:
        found = ackwise.analyze(path, up="1 Mbit/s")
        in_memory = ackwise.analyze(path.read_bytes(), up="1 Mbit/s")
        if {**found, "file": "-"} != in_memory or found["file"] != str(path):
            sys.exit(f"{path}: what is said of the file is not what is said of its bytes")
        (into / f"{path.name}.json").write_bytes(json.dumps(in_memory, indent=1).encode())


def mistakes(into: Path) -> None:
    """The texts of errors."""
    example = ackwise.Scenario.example()
    calls = {
        "key": lambda: example.with_(**{"link.wan.forward.rat": "1 Mbit/s"}),
        "parameter": lambda: ackwise.Policy("every-n", n=1000),
        "capture": lambda: ackwise.analyze(b"GET / HTTP/1.1"),
        "events": lambda: example.run(max_events=1000),
    }
    for name, call in calls.items():
        try:
            call()
        except ackwise.Error as error:
            (into / f"mistake-{name}.txt").write_bytes(f"{type(error).__name__}: {error}".encode())
        else:
            sys.exit(f"the mistake '{name}' is no error")


def refusals() -> None:
    """That virtual and live runs say what they lack."""
    for on in ("virtual", "live"):
        try:
            ackwise.Scenario.example().run(on=on)
        except ackwise.ProgramError as error:
            if f"on='{on}' needs Linux, and this is Python for {sys.platform}" not in str(error):
                raise
        else:
            sys.exit(f"a run on '{on}' was not refused on {sys.platform}")


def main() -> None:
    """Writes all."""
    into = Path(sys.argv[1])
    into.mkdir(parents=True)
    scenarios(into)
    policies(into)
    captures(into)
    mistakes(into)
    if sys.platform != "linux":
        refusals()
    print(f"{sys.platform}, Python {sys.version.split()[0]}: {sum(1 for _ in into.rglob('*'))} answers")


main()
