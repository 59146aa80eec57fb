"""Runs of the program ackwise-lab from Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import RELEASE, Program

from ackwise import Progress, ProgramError, Scenario

pytestmark = pytest.mark.linux


def test_a_virtual_run_is_the_programs(lab: Program, tmp_path: Path) -> None:
    file = "scenarios/quick.toml"
    news: list[Progress] = []
    results = Scenario.load(file).run(
        on="virtual", arms="adaptive", duration="2 s", progress=news.append
    )
    record = tmp_path / "record.json"
    arguments = ["--arm", "adaptive", "--duration", "2s", "--output", str(record)]
    lab.run("run", file, "--on", "virtual", *arguments)
    assert results.to_json() == record.read_text()
    assert results.engine == "virtual"
    assert [(it.state, it.run) for it in news] == [("finished", "adaptive/cubic/1")]


def test_a_changed_scenario_goes_to_the_program_with_its_traces() -> None:
    scenario = Scenario.load("scenarios/cross-check-changing.toml")
    traced = scenario._scenario.traces()
    assert traced, "this scenario has to read a trace"
    run = scenario.runs(on="virtual")[0]
    arm, cc, seed = run.split("/")[:3]
    changed = scenario.with_(**{"scenario.name": "changed"})
    results = changed.run(on="virtual", arms=arm, cc=cc, seed=seed, duration="1 s")
    assert results.scenario == "changed" and run in [it["id"] for it in results]


def test_what_the_program_refuses_is_an_exception(lab: Program) -> None:
    scenario = Scenario.load("scenarios/quick.toml")
    with pytest.raises(ProgramError) as caught:
        scenario.run(on="virtual", kernel="/nowhere/linux")
    said = lab.refuses("run", "scenarios/quick.toml", "--on", "virtual", "--kernel", "/nowhere/linux")
    assert str(caught.value) == said


def test_an_argument_that_there_cannot_be_is_named() -> None:
    scenario = Scenario.load("scenarios/quick.toml")
    for on in ("sim", "virtual", "live"):
        for jobs in (-1, 65536):
            with pytest.raises(ValueError, match=f"^jobs must be from 0 to 65535, not {jobs}$"):
                scenario.run(on=on, jobs=jobs)
    with pytest.raises(ProgramError) as caught:
        scenario.run(on="virtual", kernel="9.99")
    said = str(caught.value)
    assert said.startswith("invalid value '9.99' for '--kernel ") and "--help" not in said


@pytest.mark.parametrize(
    ("on", "argument", "said"),
    [
        ("sim", {"kernel": "6.12"}, "kernel is for runs in virtual time, and not for 'sim'"),
        ("live", {"kernel": "7"}, "kernel is for runs in virtual time, and not for 'live'"),
        ("virtual", {"max_events": 9}, "max_events is for runs on the simulator, and not for 'virtual'"),
        ("live", {"max_memory": 9}, "max_memory is for runs on the simulator, and not for 'live'"),
    ],
)
def test_an_argument_of_another_engine_is_refused(on: str, argument: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}\n  leave it out, or use on="):
        Scenario.load("scenarios/quick.toml").run(on=on, **argument)


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scenario = Scenario.load("scenarios/quick.toml")
    monkeypatch.setenv("ACKWISE_LAB", str(tmp_path / "lab"))
    with pytest.raises(ProgramError, match="ACKWISE_LAB names .*/lab, which is not an executable file"):
        scenario.run(on="live")
    monkeypatch.delenv("ACKWISE_LAB")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProgramError, match="need the program ackwise-lab, which is not in PATH"):
        scenario.run(on="virtual")
    monkeypatch.setenv("PATH", str(RELEASE))
    with pytest.raises(ProgramError, match="/nowhere"):
        scenario.run(on="virtual", kernel="/nowhere/linux")


@pytest.mark.parametrize("on", ["virtual", "live"])
def test_what_needs_linux_says_so_elsewhere(monkeypatch: pytest.MonkeyPatch, on: str) -> None:
    scenario = Scenario.load("scenarios/quick.toml")
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(ProgramError) as caught:
        scenario.run(on=on, duration="1 s")
    assert str(caught.value) == (
        f"on='{on}' needs Linux, and this is Python for darwin\n"
        "  use on='sim', which runs on every system, or run it on Linux"
    )
    assert len(scenario.run(duration="1 s")) == 2
