"""Scenarios, and running them."""

from __future__ import annotations

import datetime
import decimal
import functools
import numbers
import operator
import os
import typing
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from ackwise import _native, _program, _progress
from ackwise._errors import RunError
from ackwise._results import Results

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from typing_extensions import TypeAlias

    from ackwise._policy import FlowPolicy
    from ackwise._progress import Observer

    Policies: TypeAlias = "Mapping[str, Callable[[], FlowPolicy]]"
    # NumPy's whole numbers are typing.SupportsIndex.
    Names: TypeAlias = "str | Iterable[str] | None"
    Seeds: TypeAlias = "typing.SupportsIndex | str | Iterable[typing.SupportsIndex | str] | None"
    Points: TypeAlias = "typing.SupportsIndex | Iterable[typing.SupportsIndex] | None"
    Duration: TypeAlias = "str | float | datetime.timedelta"


class Scenario:
    """A scenario: a network, its traffic, and the arms that are compared.

    Make one with :meth:`load`, :meth:`from_toml`, :meth:`from_dict` or :meth:`example`, which
    check it. It is immutable: :meth:`with_` returns another one.

    Parameters
    ----------
    scenario : object
        A scenario of the native module.

    Examples
    --------
    >>> import ackwise
    >>> scenario = ackwise.Scenario.example()
    >>> scenario
    <ackwise.Scenario 'example': 2 arms, 5 s>
    >>> slower = scenario.with_(**{"link.wan.forward.rate": "10 Mbit/s"})
    >>> results = slower.run(arms="adaptive", seed=1)
    >>> round(results.to_dicts()[0]["goodput_bps"] / 1e6, 1)
    9.4
    """

    def __init__(self, scenario: _native.Scenario) -> None:
        self._scenario = scenario

    def __reduce__(self) -> tuple[typing.Any, ...]:
        # By its text and its traces: who unpickles it may not have the files.
        native = self._scenario
        return _unpickled, (native.text, str(native.path), native.traces())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Scenario:
        """Read and check a scenario file.

        Parameters
        ----------
        path : path-like
            A TOML file; ``docs/scenarios.md`` is its reference.

        Returns
        -------
        Scenario
            The scenario.

        Raises
        ------
        ScenarioError
            The file cannot be read or has mistakes; the text is that of ``ackwise-lab``, and
            ``diagnostics`` has line and column of each.
        """
        return cls(_native.Scenario.load(Path(path)))

    @classmethod
    def from_toml(cls, text: str, name: str | os.PathLike[str] = "scenario.toml") -> Scenario:
        """Check the text of a scenario.

        Parameters
        ----------
        text : str
            The text, as in a file.
        name : path-like
            The file name that errors show; traces are searched for next to it.

        Returns
        -------
        Scenario
            The scenario.

        Raises
        ------
        ScenarioError
            The text has mistakes.

        Examples
        --------
        >>> import ackwise
        >>> try:
        ...     ackwise.Scenario.from_toml("[scenario]\\nnam = 'x'\\nduration = '5 s'", "x.toml")
        ... except ackwise.ScenarioError as error:
        ...     print(error.diagnostics[-1].line, error.diagnostics[-1].message)
        2 unknown key 'nam' in [scenario]; did you mean 'name'?
        """
        return cls(_native.Scenario.from_toml(text, Path(name)))

    @classmethod
    def from_dict(
        cls, tables: Mapping[str, typing.Any], name: str | os.PathLike[str] = "scenario.toml"
    ) -> Scenario:
        """Check a scenario that is given as a dict.

        Parameters
        ----------
        tables : mapping of str
            The tables of a scenario file; ``[[link]]`` is a list of dicts with the key ``link``.
        name : path-like
            The file name that errors show; their places refer to :attr:`text`.

        Returns
        -------
        Scenario
            The scenario.

        Raises
        ------
        ScenarioError
            It has mistakes.
        TypeError
            A value is of a type that TOML scenarios do not have; the text names its path.
        ValueError
            A whole number does not fit into 64 bits, or dicts and lists are nested too deep.

        Examples
        --------
        >>> import ackwise
        >>> ackwise.Scenario.from_dict({
        ...     "scenario": {"name": "hello", "duration": "5 s"},
        ...     "node": [{"name": "a"}, {"name": "b"}],
        ...     "link": [{
        ...         "name": "wan", "between": ["a", "b"],
        ...         "both": {"rate": "20 Mbit/s", "delay": "10 ms"},
        ...     }],
        ...     "flow": [{"name": "bulk", "from": "a", "to": "b", "app": "bulk"}],
        ... })
        <ackwise.Scenario 'hello': 1 arm, 5 s>
        """
        return cls(_native.Scenario.from_dict(dict(tables), Path(name)))

    @classmethod
    def example(cls) -> Scenario:
        """Return a small scenario: a download of 5 s whose ACKs share a thin uplink.

        Returns
        -------
        Scenario
            50 Mbit/s down, 200 kbit/s up; arms ``baseline`` and ``adaptive``.
        """
        text = resources.files("ackwise").joinpath("example.toml").read_text(encoding="utf-8")
        return cls.from_toml(text, "example.toml")

    def with_(self, **changes: typing.Any) -> Scenario:
        """Return a copy with other values.

        Parameters
        ----------
        **changes : str, int, float, bool, list, dict or None
            New values by path; numbers and arrays of NumPy, too. Paths are those of ``[sweep]``, and of every other key:
            ``link.wan.forward.loss``, ``scenario.duration``, ``sweep.cc``, ``arm.tack.set.n``.
            ``link.*.both.delay`` changes all links. ``None`` removes a key. A path has dots, so
            write ``with_(**{"link.wan.forward.loss": "1 %"})``.

        Returns
        -------
        Scenario
            The copy.

        Raises
        ------
        ScenarioError
            A path names nothing, or the copy has mistakes.
        TypeError, ValueError
            A value is not one that a scenario can have, as for :meth:`from_dict`.

        Examples
        --------
        >>> import ackwise
        >>> scenario = ackwise.Scenario.example()
        >>> len(scenario.with_(**{"sweep.seed": [1, 2, 3]}).runs())
        6
        >>> scenario.with_(**{"link.wam.forward.loss": "1 %"})
        Traceback (most recent call last):
        ackwise._errors.ScenarioError: 'link.wam.forward.loss' does not name a value: there is no \
link 'wam'; did you mean 'wan'?
        """
        return Scenario(self._scenario.with_values(changes))

    def __repr__(self) -> str:
        arms = f"{len(self.arms)} arm" + ("" if len(self.arms) == 1 else "s")
        return f"<ackwise.Scenario '{self.name}': {arms}, {self.duration_s:g} s>"

    @property
    def name(self) -> str:
        """Its name."""
        return self._scenario.name

    @property
    def about(self) -> str:
        """Its description."""
        return self._scenario.about

    @property
    def duration_s(self) -> float:
        """How long traffic flows in a run, seconds."""
        return self._scenario.duration_s

    @property
    def path(self) -> Path:
        """The file, or the name that was given instead."""
        return self._scenario.path

    @property
    def text(self) -> str:
        """Its text, changes included, as it would be in a file."""
        return self._scenario.text

    @property
    def arms(self) -> list[str]:
        """The names of its arms."""
        return self._scenario.arms

    @property
    def cc(self) -> list[str]:
        """Its congestion controls."""
        return self._scenario.cc

    @property
    def seeds(self) -> list[int]:
        """Its seeds."""
        return self._scenario.seeds

    def runs(
        self,
        on: str = "sim",
        *,
        cc: Names = (),
        arms: Names = (),
        seed: Seeds = (),
        point: Points = (),
    ) -> list[str]:
        """Return the ids of the runs that :meth:`run` would run.

        Parameters
        ----------
        on : {'sim', 'virtual', 'live'}
            The engine: arms that are not for it are left out.
        cc, arms, seed, point : optional
            As :meth:`run` takes them.

        Returns
        -------
        list of str
            In the order of the results, e.g. ``['baseline/cubic/1', 'adaptive/cubic/1']``.
        """
        return self._scenario.select(on, *chosen(cc, arms, seed, point))

    def run(
        self,
        on: str = "sim",
        *,
        cc: Names = (),
        arms: Names = (),
        seed: Seeds = (),
        point: Points = (),
        duration: Duration | None = None,
        jobs: int | None = None,
        max_events: int = _native.MAX_EVENTS,
        max_memory: int = _native.MAX_MEMORY,
        kernel: str | os.PathLike[str] | None = None,
        policies: Policies | None = None,
        progress: bool | Observer | None = None,
    ) -> Results:
        """Run the scenario.

        The simulator runs in this process, without the interpreter's lock; Ctrl-C ends it.
        ``'virtual'`` and ``'live'`` run the program ``ackwise-lab``, which is searched for in the
        environment variable ``ACKWISE_LAB``, beside the interpreter and in ``PATH``.

        Parameters
        ----------
        on : {'sim', 'virtual', 'live'}
            The engine: the simulator; the real Linux stack in virtual time; this kernel, in
            network namespaces and as root.
        cc, arms : str or sequence of str, optional
            Only these congestion controls and arms; ``*`` and ``?`` are patterns. All if left out.
        seed : int, str or sequence of these, optional
            Only these seeds.
        point : int or sequence of int, optional
            Only these drawn points.
        duration : str, float or timedelta, optional
            How long traffic flows, instead of the scenario's duration: ``'10 s'``, or seconds.
        jobs : int, optional
            How many runs at the same time, 65,535 at most; one for each core if left out or 0.
        max_events : int, optional
            Refuse a run that would take more events than this, on the simulator.
        max_memory : int, optional
            Refuse runs that would take more memory than this together, bytes, on the simulator.
        kernel : path-like, optional
            The kernel that runs in virtual time: ``'6.12'``, ``'7'``, or an image.
        policies : mapping of str to callable, optional
            Policies of your own, by the names of arms. In such an arm, the callable returns a
            :class:`FlowPolicy` for each flow, which is asked instead of the policy that the
            scenario names there (write ``policy = "none"``); ``at``, ``link``, ``flows`` and the
            bounds of a hold apply as usual. On the simulator only, one run at a time, on the thread
            that calls this method. An exception ends the runs, and this method raises it.
        progress : bool or callable, optional
            A function that is called with each :class:`Progress`; an exception in it ends the
            runs. ``True`` or left out: a bar of tqdm, if that is installed and standard error is
            a terminal or this is a notebook. ``False``: none.

        Returns
        -------
        Results
            A row for each run.

        Raises
        ------
        ScenarioError
            Nothing matches, or the engine has no model of what the scenario asks for.
        TooLargeError
            The runs would take more than a limit allows.
        RunError
            Runs had errors; the exception has the results.
        ProgramError
            ``ackwise-lab`` is missing or has failed, or the platform is not Linux.
        TypeError, ValueError
            A limit or the duration is not valid, an argument is for another engine, or a policy of
            your own returned something that is not a verdict.

        Examples
        --------
        >>> import ackwise
        >>> results = ackwise.Scenario.example().run(arms="adaptive", duration="2 s")
        >>> print(results.to_dicts()[0]["id"], results.to_dicts()[0]["bytes"])
        adaptive/cubic/1 8434600
        """
        own = _own(policies or {}, on, jobs)
        _check_engine(on, max_events, max_memory, kernel)
        scenario = with_duration(self, duration)
        these = chosen(cc, arms, seed, point)
        runs = scenario.select(on, *these)
        bar = None if progress is False or callable(progress) else _progress.bar(len(runs))
        observer = progress if callable(progress) else bar
        try:
            if on != "sim":
                arguments = _arguments(*these, jobs, kernel)
                return _program.run(scenario, on, arguments, runs, scenario.duration_s, observer)
            if observer is None:
                tell = None
            else:
                tell = _progress.native_observer(observer, runs, scenario.duration_s)
            record = scenario.simulate(
                runs,
                jobs=1 if own else jobs or 0,
                max_events=max_events,
                max_memory=max_memory,
                policies=own,
                progress=tell,
            )
        finally:
            if bar is not None:
                bar.close()
        results = Results(record)
        if results.errors:
            raise RunError(
                f"{len(results.errors)} of {len(results)} runs had errors; "
                "their numbers are not to be trusted",
                results,
            )
        return results


def _check_engine(
    on: str, max_events: int, max_memory: int, kernel: str | os.PathLike[str] | None
) -> None:
    """Refuse an argument that the engine would ignore."""
    if kernel is not None and on in ("sim", "live"):
        raise ValueError(
            f"kernel is for runs in virtual time, and not for '{on}'\n"
            "  leave it out, or use on='virtual'"
        )
    defaults = {"max_events": _native.MAX_EVENTS, "max_memory": _native.MAX_MEMORY}
    for name, value in {"max_events": max_events, "max_memory": max_memory}.items():
        if value != defaults[name] and on in ("virtual", "live"):
            raise ValueError(
                f"{name} is for runs on the simulator, and not for '{on}'\n"
                "  leave it out, or use on='sim'"
            )


def _own(
    policies: Policies, on: str, jobs: int | None
) -> list[tuple[str, str, Callable[[], FlowPolicy]]]:
    """Return policies with their arms and their names in records."""
    if not isinstance(policies, Mapping):
        raise TypeError(
            "policies must be a dict of arms and their policies, e.g. {'arm': MyPolicy}, "
            f"not {policies!r}"
        )
    if policies and on in ("virtual", "live"):
        raise ValueError(
            f"policies in Python run on the simulator, and not on '{on}'\n"
            "  for Linux, write the policy in C: CONTRIBUTING.md, \"Add a policy\""
        )
    if policies and jobs not in (None, 1):
        raise ValueError(
            f"jobs={jobs}: with policies in Python there is one run at a time, since the "
            "interpreter has one lock\n  leave jobs out, or start several interpreters"
        )
    for arm, make in policies.items():
        if not callable(make):
            raise TypeError(
                f"policies[{arm!r}] must be a class, or a function that returns a policy for each "
                f"flow, not {make!r}"
            )
    return [(arm, _called(make), make) for arm, make in policies.items()]


def _called(make: object) -> str:
    if isinstance(make, functools.partial):
        make = make.func
    return str(getattr(make, "__qualname__", type(make).__qualname__))


def chosen(
    cc: Names, arms: Names, seed: Seeds, point: Points
) -> tuple[list[str], list[str], list[str], list[int]]:
    """Return what is chosen, as lists."""
    if isinstance(point, numbers.Integral):
        point = [point]
    points = [] if point is None else list(typing.cast("Iterable[int]", point))
    return _list(cc), _list(arms), _list(seed), points


def _unpickled(text: str, path: str, traces: dict[str, str]) -> Scenario:
    """Return a scenario that was pickled."""
    return Scenario(_native.Scenario.from_toml(text, Path(path), traces))


def with_duration(scenario: Scenario, duration: Duration | None) -> _native.Scenario:
    """Return the scenario, with another duration if there is one."""
    if duration is None:
        return scenario._scenario
    return scenario._scenario.with_duration(_duration(duration))


def _list(names: Seeds) -> list[str]:
    if names is None:
        return []
    if isinstance(names, (str, numbers.Integral)):
        return [str(names)]
    return [str(it) for it in typing.cast("Iterable[int | str]", names)]


def _duration(duration: Duration) -> str:
    if getattr(getattr(duration, "dtype", None), "kind", "") == "m":
        # NumPy's timedelta64 is a number, too, of any unit.
        import pandas

        duration = pandas.Timedelta(typing.cast("typing.Any", duration))
    if isinstance(duration, datetime.timedelta):
        return f"{duration // datetime.timedelta(microseconds=1)} us"
    if isinstance(duration, str):
        return duration
    if not isinstance(duration, numbers.Real) or isinstance(duration, bool):
        raise TypeError(
            "duration must be a text like '10 s', a number of seconds, or a timedelta, "
            f"not {duration!r}"
        )
    # Without an exponent, which times in scenarios do not have.
    return f"{decimal.Decimal(repr(float(duration))):f} s"


def _arguments(
    cc: list[str],
    arms: list[str],
    seeds: list[str],
    points: list[int],
    jobs: int | None,
    kernel: str | os.PathLike[str] | None,
) -> list[str]:
    """Return the options of the program."""
    given = [("--cc", it) for it in cc] + [("--arm", it) for it in arms]
    given += [("--seed", it) for it in seeds] + [("--point", str(it)) for it in points]
    if jobs is not None and not 0 <= operator.index(jobs) < 2**16:
        raise ValueError(f"jobs must be from 0 to 65535, not {jobs}")
    given += [("--jobs", str(jobs))] if jobs else []
    given += [("--kernel", os.fspath(kernel))] if kernel is not None else []
    return [f"{option}={value}" for option, value in given]
