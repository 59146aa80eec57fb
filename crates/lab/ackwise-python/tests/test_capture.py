"""Captures: what the program says of a file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from conftest import Program

import ackwise
from ackwise import CaptureError, Policy

LOSS = "tests/data/loss.pcap"


@pytest.mark.parametrize("file", [LOSS, "tests/data/ipv6.pcap"])
def test_a_capture_is_analysed_as_the_program_does(ackwise_program: Program, file: str) -> None:
    said = json.loads(ackwise_program.run("analyze", "--format", "json", file)[0])
    assert ackwise.analyze(file) == said["files"][0]
    found = ackwise.analyze(Path(file).read_bytes())
    assert found == {**said["files"][0], "file": "-"}


def test_rates_and_policies_are_taken(ackwise_program: Program) -> None:
    arguments = ["--up", "5mbit", "--down", "40 Mbit/s", "--wifi", "65mbit"]
    arguments += ["--policy", "every-n:n=4", "--policy", "tack"]
    said = json.loads(ackwise_program.run("analyze", "--format", "json", *arguments, LOSS)[0])
    policies: list[Policy | str] = [Policy("every-n", n=4), "tack"]
    rates = {"up": "5mbit", "down": "40 Mbit/s", "wifi": "65mbit"}
    packed = gzip.compress(Path(LOSS).read_bytes())
    found = ackwise.analyze(packed, policies=policies, **rates)
    assert found == {**said["files"][0], "file": "-"}
    for alone in ("tack", Policy("tack")):
        assert ackwise.analyze(LOSS, policies=alone) == ackwise.analyze(LOSS, policies=["tack"])
    with pytest.raises(ValueError, match="up: "):
        ackwise.analyze(LOSS, up="5")
    with pytest.raises(ackwise.PolicyError, match="did you mean tack"):
        ackwise.analyze(LOSS, policies=["tck"])


def test_what_cannot_be_read_has_the_programs_text(
    ackwise_program: Program, tmp_path: Path
) -> None:
    whole = Path(LOSS).read_bytes()
    packed = gzip.compress(whole, mtime=0)
    other_link = whole[:20] + (147).to_bytes(4, "little") + whole[24:]
    assert whole[:4] == bytes([0xD4, 0xC3, 0xB2, 0xA1])
    for name, data in {
        "empty": b"",
        "text": b"GET / HTTP/1.1",
        "damaged": packed[:2000] + bytes([packed[2000] ^ 255]) + packed[2001:],
        "link": other_link,
    }.items():
        file = tmp_path / name
        file.write_bytes(data)
        with pytest.raises(CaptureError) as caught:
            ackwise.analyze(file)
        assert str(caught.value) == ackwise_program.refuses("analyze", file)
    for path in ("tests/data/none.pcap", "tests/data"):
        with pytest.raises(CaptureError) as caught:
            ackwise.analyze(path)
        assert str(caught.value) == ackwise_program.refuses("analyze", path)
