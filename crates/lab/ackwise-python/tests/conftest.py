"""What the tests share: where the repository is, and its programs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
RELEASE = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"


class Program:
    """A program of the repository, built for release."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = RELEASE / name

    def run(self, *arguments: str | Path, code: int = 0) -> tuple[str, str]:
        """Return what it prints; it has to end with that exit code."""
        command = [str(self.path), *map(str, arguments)]
        ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        assert ended.returncode == code, ended.stderr
        return ended.stdout, ended.stderr

    def refuses(self, *arguments: str | Path, code: int = 2) -> str:
        """Return the error that it prints, without its name."""
        return self.run(*arguments, code=code)[1].removeprefix(f"{self.name}: ").rstrip("\n")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What asks for a program is for Linux, where the programs are."""
    for item in items:
        if {"lab", "ackwise_program"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("linux")


@pytest.fixture
def lab() -> Program:
    return Program("ackwise-lab")


@pytest.fixture
def ackwise_program() -> Program:
    return Program("ackwise")


@pytest.fixture(autouse=True)
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths in errors are those that the programs print, which run in the root."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("ACKWISE_LAB", str(RELEASE / "ackwise-lab"))
