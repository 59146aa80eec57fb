"""Policies of Python in the simulator: asked as those in C are, under the same contract."""

from __future__ import annotations

import collections
import functools
import json
import signal
import subprocess
import sys
import threading
import traceback
from typing import Any

import pytest

import ackwise
from ackwise import Event, Policy, Results, Scenario, ScenarioError, Verdict


def scenario(policy: str = "none", duration: str = "3 s") -> Scenario:
    """Return two flows over a lossy line with a thin uplink, and one arm."""
    arm = {"name": "mine", "policy": policy, "at": "client", "link": "wan"}
    line = {"rate": "20 Mbit/s", "delay": "15 ms", "queue": "60 packets", "loss": "0.3 %"}
    return Scenario.from_dict(
        {
            "scenario": {"name": "own", "duration": duration},
            "node": [{"name": "server"}, {"name": "client"}],
            "link": [
                {
                    "name": "wan",
                    "between": ["server", "client"],
                    "forward": line,
                    "reverse": {"rate": "300 kbit/s", "delay": "15 ms", "queue": "40 packets"},
                }
            ],
            "flow": [
                {"name": name, "from": "server", "to": "client", "app": "bulk"}
                for name in ("first", "second")
            ],
            "arm": [arm],
            "sweep": {"cc": ["newreno", "bbr"]},
        }
    )


class EveryN:
    """What policy/include/ackwise/policies/every_n.h does."""

    reads_time = False
    sees_data = False

    def __init__(self, n: int = 8, warm: int = 16) -> None:
        self.n, self.warm = n, warm
        self.seen = self.pending = 0

    def step(self, event: Event) -> Verdict:
        if event.kind != "ack":
            self.pending = 0
            return Verdict("send")
        step = max(event.segments - self.pending, 0)
        self.pending = 0
        if self.seen < self.warm:
            self.seen = min(self.warm, self.seen + max(step, 1))
            return Verdict("send")
        if "must-send" in event.flags or event.segments >= self.n or step > self.n - event.segments:
            return Verdict("send")
        self.pending = event.segments
        return Verdict("hold", event.hold_us)


def figures(results: Results) -> list[dict[str, Any]]:
    """Return the runs of a record, without the name of the policy."""
    runs: list[dict[str, Any]] = results.record["runs"]
    for run in runs:
        for counters in run.get("datapath", {}).values():
            counters.pop("policy")
    return runs


def test_every_n_in_python_gives_the_figures_of_the_one_in_c() -> None:
    for n in (4, 8):
        own = functools.partial(EveryN, n=n)
        python = scenario().run(policies={"mine": own})
        c = scenario("every-n").with_(**{"arm.mine.set.n": n}).run()
        assert figures(python) == figures(c)
        assert python.to_dicts()[0]["segments_per_ack"] > 1.5
        counters = json.loads(python.to_dicts()[0]["datapath_json"])
        assert [it["policy"] for it in counters.values()] == ["python:EveryN"]
        assert counters["client/wan"]["withheld"] > 100
    said = "In the arm 'mine' the caller's policy 'python:EveryN' decides"
    assert any(note.startswith(said) for note in python.record["notes"])


@pytest.mark.parametrize("name", [it.name for it in ackwise.policies() if "make" not in it.needs and "own" not in it.needs])
def test_a_policy_in_c_is_the_same_called_by_python(name: str) -> None:
    inside = scenario(name, "1500 ms").run(cc="newreno")
    outside = scenario("none", "1500 ms").run(cc="newreno", policies={"mine": lambda: Policy(name)})
    assert figures(outside) == figures(inside)


def test_runs_are_the_same_each_time() -> None:
    own = scenario(duration="2 s")
    records = {own.run(policies={"mine": EveryN}, jobs=jobs).to_json() for jobs in (None, 1, 1)}
    assert len(records) == 1


class Greedy:
    """Withholds whatever there is."""

    told: list[Event] = []

    def step(self, event: Event) -> Verdict:
        Greedy.told.append(event)
        return Verdict("hold", 10**9)


def test_the_contract_stays_in_force() -> None:
    Greedy.told.clear()
    results = scenario().run(policies={"mine": Greedy})
    withheld, reasons = 0, collections.Counter[str]()
    for row in results:
        assert row["content_ok"] and row["goodput_bps"] > 1e6
        counters = json.loads(row["datapath_json"])["client/wan"]
        assert counters["reemitted"] > 0
        assert "policy" not in counters["reasons"], "the policy let no ACK out"
        reasons.update(counters["reasons"])
        withheld += counters["withheld"]
    assert all(reasons[it] > 0 for it in ("first", "start", "sack", "recovery")), reasons
    could = [it for it in Greedy.told if it.kind == "ack" and "must-send" not in it.flags]
    assert len(could) == withheld > 100
    assert {it.kind for it in Greedy.told} == {"data", "ack", "deadline"}
    # Facts with units; at most D is granted.
    assert all(1_000 <= it.hold_us <= 25_000 for it in could)
    assert all(it.mss == 1448 and it.len >= 52 for it in could)
    known = [it for it in could if it.srtt_us]
    assert len(known) > 0.9 * len(could)
    assert all(25_000 <= it.min_rtt_us < 10**6 and 25_000 <= it.srtt_us < 10**6 for it in known), {
        (it.min_rtt_us, it.srtt_us) for it in known
    }
    assert 0 < could[0].now_us < could[-1].now_us < 3_000_000
    assert any("out-of-order" in it.flags for it in Greedy.told if it.kind == "data")


def test_each_flow_has_an_object_of_its_own() -> None:
    made: list[EveryN] = []

    def make() -> EveryN:
        made.append(EveryN())
        return made[-1]

    scenario(duration="1 s").run(cc="newreno", policies={"mine": make})
    assert len(made) == 2 and all(it.seen == 16 for it in made)


class Raises:
    def __init__(self) -> None:
        self.left = 100

    def step(self, event: Event) -> Verdict:
        self.left -= 1
        if self.left == 0:
            raise LookupError(f"at {event.now_us} us")
        return Verdict("send")


def test_an_exception_ends_the_runs_and_has_its_traceback() -> None:
    with pytest.raises(LookupError, match=r"at \d+ us") as caught:
        scenario(duration="20 min").run(policies={"mine": Raises})
    assert 'raise LookupError(f"at' in "".join(traceback.format_tb(caught.value.__traceback__))

    def none() -> EveryN:
        raise LookupError("none left")

    with pytest.raises(LookupError, match="none left"):
        scenario(duration="20 min").run(policies={"mine": none})


class Says:
    def __init__(self, answer: object) -> None:
        self.answer = answer

    def step(self, event: Event) -> Any:
        return self.answer


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (None, TypeError, "step returned None, which is not an ackwise.Verdict"),
        ("hold", TypeError, "step returned 'hold', which is no"),
        (True, TypeError, "step returned True"),
        (Verdict("keep"), ValueError, "the kind must be 'send' or 'hold'"),
        (Verdict("drop"), ValueError, "the kind must be 'send' or 'hold'"),
        (Verdict("hold", 0), ValueError, "1 or more, or None"),
        (Verdict("hold", -1), ValueError, "1 or more, or None"),
        (Verdict("hold", 1.5), ValueError, "a whole number of microseconds"),  # type: ignore[arg-type]
        (Verdict("hold", "1 ms"), ValueError, "a whole number of microseconds"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_verdict_is_refused(answer: object, error: type[Exception], says: str) -> None:
    with pytest.raises(error) as caught:
        scenario(duration="20 min").run(policies={"mine": lambda: Says(answer)})
    assert says in str(caught.value)
    assert "it was asked about Event(kind='ack', " in str(caught.value)


def test_what_is_no_policy_is_refused() -> None:
    class WithoutStep: ...

    class WithNumber:
        step = 7

    makers: list[tuple[Any, str]] = [
        (WithoutStep, "'WithoutStep' object has no attribute 'step'"),
        (WithNumber, "the step of WithNumber is not a method"),
        (lambda _: None, "missing 1 required positional argument"),
        (7, r"policies\['mine'\] must be a class, or a function that returns a policy .* not 7"),
        (Policy("adaptive"), r"policies\['mine'\] must be a class.* not <ackwise.Policy adaptive"),
    ]
    for make, says in makers:
        with pytest.raises((AttributeError, TypeError), match=says):
            scenario(duration="20 min").run(policies={"mine": make})


    with pytest.raises(TypeError, match="policies must be a dict of arms and their policies"):
        scenario().run(policies=EveryN)  # type: ignore[arg-type]


def test_no_hold_is_too_long() -> None:
    held = [
        scenario(duration="1 s").run(cc="newreno", policies={"mine": lambda: Says(Verdict("hold", us))})
        for us in (10**9, 2**64 - 1, 2**70)
    ]
    assert figures(held[0]) == figures(held[1]) == figures(held[2])


def test_a_policy_is_called_by_the_thread_that_runs_it() -> None:
    seen = set()

    class Seen:
        def step(self, event: Event) -> Verdict:
            seen.add(threading.get_ident())
            return Verdict("send")

    told: list[int] = []
    mine = scenario(duration="1 s")
    mine.run(policies={"mine": Seen}, progress=lambda _: told.append(threading.get_ident()))
    assert seen == set(told) == {threading.get_ident()}
    with pytest.raises(LookupError, match="enough"):
        mine.run(policies={"mine": Seen}, progress=lambda _: (_ for _ in ()).throw(LookupError("enough")))


def test_a_policy_has_to_have_a_place() -> None:
    with pytest.raises(ackwise.Error, match="there is no arm 'yours' for a policy of your own; there are mine"):
        scenario().run(policies={"yours": EveryN})
    bare = Scenario.example()
    with pytest.raises(ScenarioError, match="'baseline' has no interface at which a policy of your own"):
        bare.run(policies={"baseline": EveryN})
    for engine in ("virtual", "live"):
        with pytest.raises(ValueError, match=f"run on the simulator, and not on '{engine}'"):
            scenario().run(on=engine, policies={"mine": EveryN})
    with pytest.raises(ValueError, match="jobs=2: .*one run at a time"):
        scenario().run(policies={"mine": EveryN}, jobs=2)


def test_an_arm_that_is_not_chosen_asks_nobody() -> None:
    def never() -> EveryN:
        raise AssertionError("asked")

    results = Scenario.example().run(arms="baseline", policies={"adaptive": never})
    assert len(results) == 1


INTERRUPTED = """
import ackwise, sys
class Told:
    count = 0
    def step(self, event):
        Told.count += 1
        if Told.count == 1000:
            print("runs", flush=True)
        return ackwise.Verdict("send")
try:
    scenario = ackwise.Scenario.example()
    scenario.run(arms="adaptive", duration="24 h", policies={"adaptive": Told}, max_events=10**15)
except KeyboardInterrupt:
    sys.exit(7)
"""


@pytest.mark.linux
def test_an_interrupt_ends_a_run() -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 7


HANGS = """
import ackwise, sys, time
class Hangs:
    def step(self, event):
        print("hangs", flush=True)
        while True:
            {}
try:
    ackwise.Scenario.example().run(arms="adaptive", policies={{"adaptive": Hangs}})
except KeyboardInterrupt:
    sys.exit(7)
"""


@pytest.mark.linux
@pytest.mark.parametrize("does", ["pass", "time.sleep(1000)"])
def test_an_interrupt_ends_a_policy_that_does_not_return(does: str) -> None:
    command = [sys.executable, "-c", HANGS.format(does)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "hangs\n"
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(timeout=60) == 7
        finally:
            process.kill()
