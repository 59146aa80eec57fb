"""Runs of ackwise-lab: what needs a kernel is not done in this process."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path, PurePosixPath

from ackwise import _native
from ackwise._errors import ProgramError, RunError, ScenarioError
from ackwise._progress import Observer, Progress
from ackwise._results import Results

NAME = "ackwise-lab"

# What the program prints for each finished run.
_FINISHED = re.compile(r"^(\d+) of (\d+): (.*), \S+ Mbit/s$")
_PLACE = re.compile(r"^(?:.*?):(\d+):(\d+): (.*)$", re.MULTILINE)


def find() -> Path:
    """Return the program's path.

    It is what the environment variable ``ACKWISE_LAB`` names, else one beside the interpreter,
    else one of ``PATH``.

    Raises
    ------
    ProgramError
        There is none.
    """
    named = os.environ.get("ACKWISE_LAB")
    if named:
        if not os.access(named, os.X_OK) or Path(named).is_dir():
            raise ProgramError(
                f"ACKWISE_LAB names {named}, which is not an executable file\n"
                "  set it to the path of ackwise-lab, or unset it"
            )
        return Path(named).absolute()
    beside = Path(sys.executable).parent / NAME
    if os.access(beside, os.X_OK):
        return beside
    found = shutil.which(NAME)
    if found is None:
        raise ProgramError(
            f"virtual and live runs need the program {NAME}, which is not in PATH\n"
            "  install it (`make install-lab`), or set ACKWISE_LAB to its path"
        )
    return Path(found)


def run(
    scenario: _native.Scenario,
    on: str,
    arguments: list[str],
    runs: list[str],
    duration_s: float,
    observer: Observer | None,
) -> Results:
    """Run a scenario with the program, and read its record."""
    if sys.platform != "linux":
        raise ProgramError(
            f"on={on!r} needs Linux, and this is Python for {sys.platform}\n"
            "  use on='sim', which runs on every system, or run it on Linux"
        )
    program = find()
    with tempfile.TemporaryDirectory(prefix="ackwise-") as directory:
        file = _file(scenario, Path(directory))
        output = Path(directory) / "record.json"
        command = [str(program), "run", str(file), "--on", on, "--output", str(output), *arguments]
        code, said = _call(command, runs, duration_s, observer)
        text = output.read_text(encoding="utf-8") if output.exists() else ""
        said = said.replace(str(file), str(scenario.path))
    if not text:
        message = _message(said) or f"{NAME} ended with exit code {code} and without a message"
        places = [(int(m[1]), int(m[2]), m[3]) for m in _PLACE.finditer(message)]
        if code == 2 and places:
            raise ScenarioError(message, places)
        raise ProgramError(message)
    results = Results(_native.Record.from_json(text))
    if code != 0:
        raise RunError(_message(said), results)
    return results


def _message(said: str) -> str:
    """Return the error that the program printed last, without its name."""
    before, name, message = said.rpartition(f"{NAME}: ")
    message = (message if name else before or message).strip()
    # Of a wrong argument it is another kind of text, with a hint for the command line.
    return message.removeprefix("error: ").removesuffix("For more information, try '--help'.").strip()


def _file(scenario: _native.Scenario, directory: Path) -> Path:
    """Return the scenario's file; one with the traces beside it, if it is changed."""
    if scenario.as_in_file:
        return Path(scenario.path)
    return lay(scenario, directory, Path(scenario.path).name or "scenario.toml")


def lay(scenario: _native.Scenario, directory: Path, name: str) -> Path:
    """Write the scenario and its traces below a directory; return the scenario's file."""
    traces = scenario.traces()
    # A trace may be named ../traces/lte.trace: so deep lies the scenario.
    deepest = max((PurePosixPath(name).parts.count("..") for name in traces), default=0)
    place = directory.joinpath("scenario", *["below"] * deepest)
    place.mkdir(parents=True)
    for trace, text in traces.items():
        file = place / trace
        if Path(trace).is_absolute():
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        # As bytes, since Windows would end lines otherwise, and results hang on the text.
        file.write_bytes(text.encode())
    file = place / name
    file.write_bytes(scenario.text.encode())
    return file


def _call(
    command: list[str], runs: list[str], duration_s: float, observer: Observer | None
) -> tuple[int, str]:
    """Run the program to its end, and hand on which runs are finished."""
    said: list[str] = []
    # In a session of its own, a Ctrl-C of the terminal comes to it once, from here.
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                finished = _FINISHED.match(line)
                if finished is None:
                    said.append(line)
                elif observer is not None and finished[3] in runs:
                    index = runs.index(finished[3])
                    observer(
                        Progress(
                            "finished", finished[3], index, len(runs), duration_s, duration_s
                        )
                    )
        except BaseException:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
    return process.returncode, "".join(said)
