"""Scenarios: reading, changing, and what is said of mistakes."""

from __future__ import annotations

import datetime
import pickle
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from conftest import ROOT, Program

import ackwise
from ackwise import Scenario, ScenarioError

QUICK = "scenarios/quick.toml"


def test_a_file_is_read() -> None:
    scenario = Scenario.load("scenarios/asymmetric.toml")
    assert scenario.name == "asymmetric"
    assert scenario.duration_s == 30.0
    assert scenario.cc == ["cubic", "bbr", "reno"]
    assert scenario.arms[:3] == ["baseline", "adaptive", "every-n-2"]
    assert scenario.seeds == [1]
    assert scenario.text == Path("scenarios/asymmetric.toml").read_text()
    assert scenario.runs(cc="cubic", arms="every-n-?")[0] == "every-n-2/cubic/1"


def test_every_scenario_is_read_as_the_program_does(lab: Program) -> None:
    files = sorted((ROOT / "scenarios").rglob("*.toml"))
    assert len(files) > 30
    for file in files:
        path = file.relative_to(ROOT)
        said = lab.run("scenario", "check", path)[0]
        try:
            scenario = Scenario.load(path)
        except ScenarioError as error:
            # Low-power radio is another kind of scenario.
            assert "low-power radio" in str(error), str(error)
            assert "ayadi-2013" in str(path), path
            continue
        runs = sum(len(scenario.runs(on=on)) for on in ("sim",)) if "sim" in said else None
        assert f"{scenario.name}: {len(scenario.arms)} arms" in said
        assert runs is None or f"{runs} runs" in said


def test_a_dict_is_the_same_as_its_text() -> None:
    text = Path(QUICK).read_text()
    by_dict, by_text = Scenario.from_dict(tomllib.loads(text)), Scenario.from_toml(text)
    assert by_dict.runs() == by_text.runs()
    runs = [it.run(duration="1 s").to_dicts() for it in (by_dict, by_text)]
    assert runs[0] == runs[1]


def test_values_are_changed_by_path() -> None:
    scenario = Scenario.load("scenarios/asymmetric.toml")
    changed = scenario.with_(
        **{
            "link.*.forward.rate": "7 Mbit/s",
            "link.wan.reverse.loss": "1 %",
            "sweep.cc": ["reno"],
            "sweep.seed": [3, 4],
            "arm.tack.hold": "20 ms",
            "node.sender.sysctl": {"net.ipv4.tcp_no_metrics_save": "1"},
            "scenario.duration": "4 s",
            "scenario.about": None,
            "expect": None,
        }
    )
    tables = tomllib.loads(changed.text)
    assert tables["link"][0]["forward"]["rate"] == "7 Mbit/s"
    assert tables["link"][0]["reverse"]["loss"] == "1 %"
    assert tables["node"][0]["sysctl"] == {"net.ipv4.tcp_no_metrics_save": "1"}
    assert "about" not in tables["scenario"] and "expect" not in tables
    assert (changed.cc, changed.seeds, changed.duration_s) == (["reno"], [3, 4], 4.0)
    assert scenario.cc == ["cubic", "bbr", "reno"], "a scenario does not change"
    # A key with dots of its own, which is there already.
    again = changed.with_(**{"node.sender.sysctl.net.ipv4.tcp_no_metrics_save": "0"})
    assert tomllib.loads(again.text)["node"][0]["sysctl"] == {
        "net.ipv4.tcp_no_metrics_save": "0"
    }
    # Comments of the file stay.
    assert "# A deep uplink queue" in again.text
    goodput = changed.run(arms="adaptive", seed=3).to_dicts()[0]["goodput_bps"]
    assert 5e6 < goodput < 7e6


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("link.wam.forward.rate", "1 Mbit/s", "there is no link 'wam'; did you mean 'wan'?"),
        ("link.wan", "x", "say which key of link 'wan'"),
        ("sweep.seed", None, "there is no 'seed' to remove"),
        ("link..rate", "1 Mbit/s", "a name is missing between two dots"),
        ("arm.adaptive.policy", "adaptiv", "did you mean adaptive?"),
        ("link.wan.forward.rat", "1 Mbit/s", "did you mean 'rate'?"),
        ("lnk.wan", 1, "unknown key 'lnk'"),
    ],
)
def test_a_wrong_change_is_refused(path: str, value: object, says: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(QUICK).with_(**{path: value})
    assert says in str(caught.value)


def test_values_of_other_types_are_refused() -> None:
    scenario = Scenario.load(QUICK)
    with pytest.raises(TypeError, match=r"sweep\.seed\[1\]: a value must be .* not set"):
        scenario.with_(**{"sweep.seed": [1, {2}]})
    with pytest.raises(TypeError, match="node.*: a key must be a str, not int"):
        Scenario.from_dict({"node": [{1: "a"}]})
    with pytest.raises(ValueError, match=r"^sweep\.seed\[1\] must be from -[0-9]+ to [0-9]+, not 1180591620717411303424$"):
        scenario.with_(**{"sweep.seed": [1, 2**70]})


def test_what_has_no_end_is_refused() -> None:
    scenario = Scenario.load(QUICK)
    table: dict[str, Any] = {}
    table["a"] = table
    entries: list[Any] = []
    entries.append(entries)
    refused: list[Callable[[], Scenario]] = [
        lambda: Scenario.from_dict(table),
        lambda: scenario.with_(node=[{"a": [table]}]),
        lambda: scenario.with_(**{"sweep.seed": entries}),
    ]
    for make in refused:
        with pytest.raises(ValueError, match="can be 32 levels deep; does one contain itself"):
            make()
    for long in ("link.wan." + "a." * 200_000 + "b", "a." * 200_000 + "b"):
        with pytest.raises(ScenarioError, match="a path has at most 32 names with dots between"):
            scenario.with_(**{long: 1})


def test_numbers_and_arrays_of_numpy_are_taken() -> None:
    scenario = Scenario.load(QUICK)
    plain = scenario.with_(**{"sweep.seed": [1, 2], "link.wan.mtu": 1400})
    for seeds in (numpy.arange(1, 3), [numpy.int64(1), numpy.int32(2)], range(1, 3)):
        swept = scenario.with_(**{"sweep.seed": seeds, "link.wan.mtu": numpy.uint16(1400)})
        assert swept.text == plain.text
    assert plain.runs(seed=numpy.int64(2)) == plain.runs(seed=numpy.arange(2, 3)) == plain.runs(seed=2)
    with pytest.raises(ScenarioError, match="point"):
        plain.runs(point=numpy.int64(1))
    with pytest.raises(TypeError, match="scenario.about: a value must be .* not bytes"):
        scenario.with_(**{"scenario.about": b"x"})


def test_what_is_none_is_left_out() -> None:
    scenario = Scenario.load(QUICK)
    assert scenario.runs(cc=None, arms=None, seed=None, point=None) == scenario.runs()


def test_scenarios_are_pickled_with_their_traces(tmp_path: Path) -> None:
    file = tmp_path / "traced.toml"
    text = Path("scenarios/cross-check-changing.toml").read_text()
    (tmp_path / "traces").mkdir()
    scenario = Scenario.load("scenarios/cross-check-changing.toml")
    for name, trace in scenario._scenario.traces().items():
        (tmp_path / name).write_text(trace)
    file.write_text(text)
    packed = pickle.dumps(Scenario.load(file))
    for written in tmp_path.rglob("*.*"):
        written.unlink()
    again = pickle.loads(packed)
    assert (again.text, again.path) == (text, file)
    assert again._scenario.traces() == scenario._scenario.traces() != {}
    changed = again.with_(**{"scenario.duration": "2 s"})
    assert changed.runs() == scenario.runs()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"jobs": -1}, "jobs must be from 0 to 65535, not -1"),
        ({"jobs": 65536}, "jobs must be from 0 to 65535, not 65536"),
        ({"jobs": 2**70}, f"jobs must be from 0 to 65535, not {2**70}"),
        ({"max_memory": -1}, f"max_memory must be from 0 to {2**64 - 1}, not -1"),
        ({"max_events": 2**64}, f"max_events must be from 0 to {2**64 - 1}, not {2**64}"),
        ({"point": -1}, "point must be from 0 to 4294967295, not -1"),
    ],
)
def test_a_limit_that_there_cannot_be_is_named(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=f"^{says}$"):
        Scenario.load(QUICK).run(**given)


def test_more_jobs_than_runs_start_no_threads_for_nothing() -> None:
    results = Scenario.load(QUICK).run(arms="baseline", duration="1 s", jobs=65535)
    assert len(results) == 1


MISTAKES = """
[scenario]
name = "x"
duration = "5 s"
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
name = "wan"
between = ["a", "c"]
both = { rat = "20 Mbit/s", delay = "10 ms" }
[[flow]]
name = "f"
from = "a"
to = "b"
app = "bulk"
"""


def test_mistakes_have_the_text_and_places_of_the_program(lab: Program, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(MISTAKES)
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(file)
    assert str(caught.value) == lab.refuses("run", file)
    places = [(it.line, it.column) for it in caught.value.diagnostics]
    assert places == [(11, 17), (12, 10), (16, 6)]
    assert "rate" in caught.value.diagnostics[1].message
    assert isinstance(caught.value, ackwise.Error) and isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "arm",
    ['policy = "adaptiv"', 'policy = "every-n"\nset = { m = 8 }', 'policy = "every-n"\nset = { n = 0 }'],
)
def test_policies_are_looked_at_as_the_program_does(
    lab: Program, tmp_path: Path, arm: str
) -> None:
    file = tmp_path / "policy.toml"
    text = Path(QUICK).read_text().replace('policy = "adaptive"', arm)
    file.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(file)
    assert str(caught.value) == lab.refuses("run", file)
    assert len(caught.value.diagnostics) == 1


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ({"cc": "bbrr"}, ["--cc", "bbrr"]),
        ({"arms": ["adaptive", "x"]}, ["--arm", "adaptive", "--arm", "x"]),
        ({"seed": 7}, ["--seed", "7"]),
        ({"point": 1}, ["--point", "1"]),
    ],
)
def test_what_selects_nothing_is_refused(
    lab: Program, given: dict[str, object], arguments: list[str]
) -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(QUICK).run(**given)  # type: ignore[arg-type]
    assert str(caught.value) == lab.refuses("run", QUICK, *arguments)


def test_what_the_simulator_has_no_model_of_has_the_programs_text(
    lab: Program, tmp_path: Path
) -> None:
    file = tmp_path / "mptcp.toml"
    text = Path(QUICK).read_text() + "\n[sweep]\ncc = ['westwood']\n"
    file.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(file).run()
    assert str(caught.value) == lab.refuses("run", file)


def test_an_arm_of_another_engine_has_the_programs_text(lab: Program, tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    text = Path(QUICK).read_text().replace('name = "adaptive"\n', 'name = "adaptive"\non = "live"\n')
    file.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(file).run(arms="adaptive")
    assert str(caught.value) == lab.refuses("run", file, "--arm", "adaptive")


def test_files_that_cannot_be_read_have_the_programs_text(lab: Program) -> None:
    for path in ("scenarios/none.toml", "scenarios"):
        with pytest.raises(ScenarioError) as caught:
            Scenario.load(path)
        assert str(caught.value) == lab.refuses("run", path)


def test_a_scenario_of_radio_is_known_for_one_however_it_is_given() -> None:
    file = "scenarios/papers/ayadi-2013/grid.toml"
    text = Path(file).read_text()
    makers: list[Callable[[], Scenario]] = [
        lambda: Scenario.load(file),
        lambda: Scenario.from_toml(text, file),
        lambda: Scenario.from_dict(tomllib.loads(text), file),
    ]
    for make in makers:
        with pytest.raises(ScenarioError) as caught:
            make()
        assert str(caught.value) == (
            f"{file}: this is a scenario of low-power radio, which cannot be run from Python\n"
            "  run it with `ackwise-lab run`"
        )
        assert caught.value.diagnostics == []


@pytest.mark.parametrize(
    "duration",
    [
        "2 s",
        2,
        2.0,
        datetime.timedelta(seconds=2),
        numpy.int64(2),
        numpy.float32(2),
        numpy.timedelta64(2000, "ms"),
        numpy.timedelta64(2 * 10**9, "ns"),
    ],
)
def test_a_duration_is_text_seconds_or_a_timedelta(duration: Any) -> None:
    results = Scenario.load(QUICK).run(arms="baseline", duration=duration)
    assert results.record["scenario"]["duration_s"] == 2.0


@pytest.mark.parametrize(
    ("duration", "duration_s"),
    [("1000500 us", 1.0005), (1.0000005, 1.0000005), (datetime.timedelta(seconds=1, microseconds=7), 1.000007)],
)
def test_a_duration_is_not_rounded(duration: Any, duration_s: float) -> None:
    results = Scenario.load(QUICK).run(arms="baseline", duration=duration)
    assert results.record["scenario"]["duration_s"] == duration_s


def test_a_short_duration_is_refused_for_what_it_is() -> None:
    with pytest.raises(ScenarioError, match="^a duration of 10µs is too short; choose at least 100ms$"):
        Scenario.load(QUICK).run(duration=1e-5)


@pytest.mark.parametrize("duration", [[1], True, 1j])
def test_what_is_no_duration_is_named(duration: Any) -> None:
    with pytest.raises(TypeError, match="^duration must be a text like '10 s', a number of seconds"):
        Scenario.load(QUICK).run(duration=duration)


@pytest.mark.parametrize("duration", ["2", "0 s", "25 h", "x", -1, float("nan"), 1e300])
def test_a_wrong_duration_is_refused(duration: str | float) -> None:
    with pytest.raises(ValueError):
        Scenario.load(QUICK).run(duration=duration)


def test_an_engine_is_known_by_its_name() -> None:
    with pytest.raises(ValueError, match="there is no engine 'ns3'; there are sim, virtual and live"):
        Scenario.load(QUICK).run(on="ns3")
