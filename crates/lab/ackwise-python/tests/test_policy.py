"""Policies: the vectors that every environment replays, and packets under the contract."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest
from conftest import ROOT

import ackwise
from ackwise import Event, Flow, Policy, PolicyError, Verdict

VECTORS = ROOT / "policy" / "vectors"
FILES = sorted(set(VECTORS.glob("*.vec")) - {VECTORS / "parse.vec", VECTORS / "contract.vec"})


def replay(file: Path) -> int:
    """Replay a file of events and verdicts; return how many verdicts were compared."""
    name, compared = "", 0
    params: dict[str, int] = {}
    facts: dict[str, int] = {}
    policy: Policy | None = None
    now = 0
    for number, line in enumerate(file.read_text().splitlines(), 1):
        said, _, expected = line.partition("#")[0].partition("->")
        words = said.split()
        if not words:
            continue
        if words[0] == "policy":
            name = words[1]
        elif words[0] == "trace":
            params, facts, policy, now = {}, {}, None, 0
        elif words[0] == "param":
            params[words[1]] = int(words[2])
        elif words[0] == "facts":
            facts = {key: int(value) for key, value in (it.split("=") for it in words[1:])}
        else:
            policy = policy or Policy(name, **params)
            at = words.pop(0)
            times = int(words.pop(0)[1:]) if re.fullmatch(r"x\d+", words[0]) else 1
            kind = words.pop(0)
            given = {k: int(v) for k, v in (it.split("=") for it in words if "=" in it)}
            flags = [it for it in words if "=" not in it]
            for _ in range(times):
                now = int(at[1:]) if at[0] == "@" else now + int(at[1:])
                make = {"data": Event.data, "ack": Event.ack, "deadline": Event.deadline}[kind]
                verdict = policy.step(make(now, flags=flags, **{**facts, **given}))
                if expected:
                    compared += 1
                    wanted = expected.split()
                    if wanted == ["hold"]:
                        wanted.append(str(facts.get("hold_us", 0)))
                    got = [verdict.kind]
                    got += [str(verdict.hold_us)] if verdict.hold_us is not None else []
                    assert got == wanted, f"{file.name}:{number}"
    return compared


@pytest.mark.parametrize("file", FILES, ids=lambda it: it.stem)
def test_the_vectors_hold(file: Path) -> None:
    assert replay(file) >= 3


def test_every_policy_has_vectors_and_is_listed() -> None:
    names = [policy.name for policy in ackwise.policies()]
    assert sorted(names) == sorted(file.stem for file in FILES)
    every_n = next(it for it in ackwise.policies() if it.name == "every-n")
    assert [it.name for it in every_n.params][:1] == ["n"]
    assert every_n.summary and every_n.source and every_n.needs


def test_parameters_and_state() -> None:
    policy = Policy("every-n", n=16)
    assert policy.params["n"] == 16
    assert str(policy).startswith("every-n:n=16,") and policy.name == "every-n"
    assert str(Policy(str(policy))) == str(policy)
    assert policy.state == bytes(64)
    for _ in range(20):
        policy.step(Event.ack(segments=1, mss=1448, hold_us=1000))
    assert policy.state != bytes(64)
    policy.reset()
    assert policy.state == bytes(64)


def test_a_verdict_has_a_reason() -> None:
    policy = Policy("every-n", n=4, warm=0)
    held = policy.step(Event.ack(1000, segments=2, mss=1448, hold_us=5000))
    assert held == Verdict("hold", 5000, "held")
    assert held.why == "withheld, the newest of its flow kept until D"
    assert policy.step(Event.ack(2000, segments=4, mss=1448, hold_us=5000)).reason == "policy"
    assert policy.step(Event.data(3000, mss=1448)).reason == "not-ack"


@pytest.mark.parametrize(
    ("name", "params", "says"),
    [
        ("adaptiv", {}, 'there is no policy "adaptiv"; the policies are none, '),
        ("every-n", {"n": 0}, "every-n: n must be from 1 to 256"),
        ("every-n", {"n": -1}, "every-n: n must be from 1 to 256 segments, not -1\n  `ackwise policies every-n`"),
        ("every-n", {"n": 2**70}, f"every-n: n must be from 1 to 256 segments, not {2**70}\n"),
        ("every-n", {"m": -1}, 'policy every-n has no parameter "m"'),
        ("every-n", {"m": 1}, 'policy every-n has no parameter "m"'),
        ("every-n:n", {}, "is not name=value"),
    ],
)
def test_what_there_is_not_is_refused(name: str, params: dict[str, int], says: str) -> None:
    with pytest.raises(PolicyError) as caught:
        Policy(name, **params)
    assert says in str(caught.value)


def test_an_unknown_event_or_flag_is_refused() -> None:
    policy = Policy("none")
    with pytest.raises(ValueError, match="there is no event 'syn'; there are data"):
        policy.step(Event("syn"))
    with pytest.raises(ValueError, match="there is no flag 'hold'; there are out-of-order"):
        policy.step(Event.ack(flags=["hold"]))


def test_a_flag_may_stand_alone() -> None:
    policies = [Policy("every-n", n=4, warm=0) for _ in range(2)]
    given: list[str | list[str]] = ["must-send", ["must-send"]]
    said = [
        policy.step(Event.ack(segments=1, mss=1448, hold_us=1000, flags=flags))
        for policy, flags in zip(policies, given)
    ]
    assert said[0] == said[1] and said[0].kind == "send"


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"bytes": -1}, "bytes must be from 0 to 4294967295, not -1"),
        ({"segments": -1, "bytes": 0}, "segments must be from 0 to 4294967295, not -1"),
        ({"segments": 2**33}, f"segments must be from 0 to 4294967295, not {2**33}"),
        ({"hold_us": 2**70}, f"hold_us must be from 0 to 4294967295, not {2**70}"),
        ({"now_us": -1}, f"now_us must be from 0 to {2**64 - 1}, not -1"),
        ({"now_us": 2**64}, f"now_us must be from 0 to {2**64 - 1}, not {2**64}"),
        # Python refuses to print it.
        ({"rcv_wnd": 10**5000}, "rcv_wnd must be from 0 to 4294967295, not a number of more digits"),
    ],
)
def test_a_number_that_an_event_cannot_have_is_named(facts: dict[str, int], says: str) -> None:
    with pytest.raises(ValueError, match=f"^{says}"):
        Policy("none").step(Event.ack(**facts))


def test_what_is_no_number_is_named() -> None:
    with pytest.raises(TypeError, match="^mss must be a whole number, not 1.5$"):
        Policy("none").step(Event.ack(mss=1.5, bytes=0))
    with pytest.raises(TypeError, match="^n must be a whole number, not '8'$"):
        Policy("every-n", n="8")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hold_us", "says"),
    [
        ((30_000, 1_000), "hold_us=(30000, 1000): the maximum hold must be 1 µs or more, and the minimum"),
        ((0, 0), "hold_us=(0, 0): the maximum hold must be 1 µs or more"),
        ((-1, 1_000), "the minimum of hold_us must be from 0 to 4294967295, not -1"),
        ((1_000, 2**32), f"the maximum of hold_us must be from 0 to 4294967295, not {2**32}"),
    ],
)
def test_bounds_of_a_hold_that_there_cannot_be_are_refused(hold_us: tuple[int, int], says: str) -> None:
    with pytest.raises(ValueError) as caught:
        Flow("none", hold_us=hold_us)
    assert str(caught.value).startswith(says)
    for fine in ((0, 1), (1_000, 1_000)):
        Flow("none", hold_us=fine)


def packet(*, ack: int, seq: int = 1, flags: int = 0x10, payload: int = 0, back: bool = True) -> bytes:
    """Return an IPv4 packet of a connection, to its sender or from it."""
    ends = (bytes([10, 0, 0, 2]), bytes([10, 0, 0, 1]))
    ports = (5002, 1234)
    src, dst = ends if back else ends[::-1]
    sport, dport = ports if back else ports[::-1]
    total = 40 + payload
    ip = bytes([0x45, 0, total >> 8, total & 255, 0, 1, 0, 0, 64, 6, 0, 0]) + src + dst
    tcp = sport.to_bytes(2, "big") + dport.to_bytes(2, "big")
    tcp += seq.to_bytes(4, "big") + ack.to_bytes(4, "big") + bytes([0x50, flags])
    return ip + tcp + (60000).to_bytes(2, "big") + bytes(4) + bytes(payload)


def test_a_flow_is_under_the_contract() -> None:
    flow = Flow("every-n:n=4,warm=0")
    assert flow.hold_us is None
    reasons: list[str] = []
    for number in range(1, 41):
        now = number * 1000
        flow.data(packet(seq=1 + 1000 * (number - 1), ack=1, payload=1000, back=False), now)
        verdict = flow.ack(packet(ack=1 + 1000 * number), now + 10)
        assert verdict is not None
        reasons.append(verdict.reason)
    assert reasons[0] == "first"
    assert reasons[1:11] == ["start"] * 10, "IW10: RFC 6928"
    assert reasons[11:39] == ["held", "held", "held", "policy"] * 7
    assert flow.hold_us is not None and 1000 <= flow.hold_us <= 25_000
    again = flow.ack(packet(ack=1 + 1000 * 40), 50_000)
    assert again is not None and (again.kind, again.reason) == ("send", "duplicate")
    fin = flow.ack(packet(ack=1 + 1000 * 40, flags=0x11), 51_000)
    assert fin is not None and fin.reason == "flags"
    assert flow.ack(packet(ack=0, flags=0x02), 52_000) is None
    with pytest.raises(ValueError, match="the packet: "):
        flow.ack(b"E", 53_000)
    for told in (flow.ack, flow.data, flow.sent):
        with pytest.raises(ValueError, match="^now_us must be from 0 to [0-9]+, not -1$"):
            told(packet(ack=1), -1)
    with pytest.raises(ValueError, match="there is no link 'wifi'"):
        Flow("none", link="wifi")


def test_policies_and_flows_are_pickled_with_their_state() -> None:
    policy = Policy("dda", l3=12)
    flow = Flow("every-n:n=4,warm=0", hold_us=(500, 5_000))
    assert flow.ack(packet(seq=9, ack=0, flags=0x12), 500) is None
    for number in range(1, 31):
        policy.step(Event.ack(number * 1000, mss=1000, hold_us=10_000))
        now = number * 1000
        flow.data(packet(seq=1 + 1000 * (number - 1), ack=1, payload=1000, back=False), now)
        flow.ack(packet(ack=1 + 1000 * number), now + 10)
        other = pickle.loads(pickle.dumps(flow))
    again = pickle.loads(pickle.dumps(policy))
    assert (str(again), again.params, again.state) == (str(policy), policy.params, policy.state)
    assert any(again.state)
    assert (other.hold_us, other.srtt_us) == (flow.hold_us, flow.srtt_us)
    for number in range(31, 51):
        for it in (flow, other):
            it.data(packet(seq=1 + 1000 * (number - 1), ack=1, payload=1000, back=False), number * 1000)
        ack = packet(ack=1 + 1000 * number)
        assert other.ack(ack, number * 1000 + 10) == flow.ack(ack, number * 1000 + 10)


def test_what_another_version_pickled_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = [pickle.dumps(Policy("none")), pickle.dumps(Flow("none"))]
    monkeypatch.setattr("ackwise._native.VERSION", "0.0.0")
    for it in packed:
        with pytest.raises(ValueError, match="pickled this, and here is 0.0.0: the state"):
            pickle.loads(it)
