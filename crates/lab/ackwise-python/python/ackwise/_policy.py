"""Policies, one event or one packet at a time."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable

from ackwise import _native


@dataclasses.dataclass(frozen=True)
class Event:
    """An event of a flow, as a policy sees it. A fact that is 0 is unknown.

    Attributes
    ----------
    kind : {'data', 'ack', 'deadline'}
        A data segment was seen; an ACK may be withheld; a held ACK has left by itself.
    now_us : int
        The time, µs, on a monotonic clock.
    flags : iterable of str, or str
        Flags. Of data: ``'out-of-order'``, ``'fills-gap'``, ``'ce'``, ``'psh'``,
        ``'ack-ce-echo'``. Of an ACK: ``'must-send'``, ``'recovery'``, ``'holding'``, ``'others'``,
        ``'shared'``, ``'busy'``.
    bytes : int
        Of data: payload, B. Of an ACK: bytes newly covered since the last one that left, B.
    segments : int
        Of data: segments. Of an ACK: segments newly covered since the last one that left.
    len : int
        Of an ACK: its size from the IP header on, B.
    hops : int
        Of data: number of hops that it took.
    peer_wnd : int
        Of data: the window that its sender advertises, B.
    mss : int
        Payload of a full segment, B.
    rcv_wnd : int
        The window that the receiver advertises, B.
    srtt_us : int
        The smoothed round-trip time, µs.
    min_rtt_us : int
        The recent minimum of the round-trip time, µs.
    hold_us : int
        The longest hold that the contract grants now, µs.

    Examples
    --------
    >>> from ackwise import Event
    >>> Event.ack(segments=2, mss=1448, hold_us=10_000).bytes
    2896
    """

    kind: str
    now_us: int = 0
    flags: Iterable[str] = ()
    bytes: int = 0
    segments: int = 0
    len: int = 0
    hops: int = 0
    peer_wnd: int = 0
    mss: int = 0
    rcv_wnd: int = 0
    srtt_us: int = 0
    min_rtt_us: int = 0
    hold_us: int = 0

    @classmethod
    def data(cls, now_us: int = 0, *, segments: int = 1, **facts: typing.Any) -> Event:
        """Return a data segment.

        Parameters
        ----------
        now_us : int
            The time, µs.
        segments : int
            How many segments were aggregated.
        **facts
            Other attributes; ``bytes`` is ``segments * mss`` if it is left out.

        Returns
        -------
        Event
            The event.
        """
        facts.setdefault("bytes", segments * facts.get("mss", 0))
        return cls("data", now_us, segments=segments, **facts)

    @classmethod
    def ack(cls, now_us: int = 0, *, segments: int = 1, **facts: typing.Any) -> Event:
        """Return a candidate ACK.

        Parameters
        ----------
        now_us : int
            The time, µs.
        segments : int
            How many segments it newly covers since the last ACK that left.
        **facts
            Other attributes; ``bytes`` is ``segments * mss`` if it is left out, ``len`` is 52.

        Returns
        -------
        Event
            The event.
        """
        facts.setdefault("bytes", segments * facts.get("mss", 0))
        facts.setdefault("len", 52)
        return cls("ack", now_us, segments=segments, **facts)

    @classmethod
    def deadline(cls, now_us: int = 0, **facts: typing.Any) -> Event:
        """Return the event that a held ACK has left by itself.

        Parameters
        ----------
        now_us : int
            The time, µs.
        **facts
            Other attributes.

        Returns
        -------
        Event
            The event.
        """
        return cls("deadline", now_us, **facts)


_REASONS = dict(_native.reasons())


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What to do with an ACK, and why.

    Attributes
    ----------
    kind : {'send', 'hold', 'drop'}
        Send it; hold it, so that a newer one may replace it; drop it, since a newer one is known
        to follow.
    hold_us : int or None
        Of a hold: its maximum duration, µs.
    reason : str
        The reason's name in status, metrics and records, e.g. ``'policy'`` or ``'held'``.
    supersedes : bool
        Whether a held ACK of the flow need not leave any more.
    twice : bool
        Whether it must leave twice, since it duplicates an ACK that was held.
    """

    kind: str
    hold_us: int | None = None
    reason: str = "policy"
    supersedes: bool = False
    twice: bool = False

    @property
    def why(self) -> str:
        """What the reason means, in words."""
        return _REASONS[self.reason]


class FlowPolicy(typing.Protocol):
    """A policy of your own, for one flow: any object with this method.

    :meth:`Scenario.run` takes a callable that makes one (``policies={"arm": MyPolicy}``), and the
    simulator asks it where a datapath would ask a policy. The contract stays in force around it:
    an ACK that carries news leaves, whatever the policy says, and D bounds every hold.

    Two attributes are optional. With ``sees_data = False`` it is told of ACKs and deadlines only.
    With ``reads_time = False`` :attr:`Event.now_us` is 0, since no clock is read for it, as for
    some of the policies of :func:`policies`; the contract, too, knows less then.

    Examples
    --------
    >>> import ackwise
    >>> class Half:
    ...     def __init__(self):
    ...         self.held = False
    ...     def step(self, event):
    ...         if event.kind == "ack":
    ...             self.held = not self.held and "must-send" not in event.flags
    ...         return ackwise.Verdict("hold" if self.held else "send")
    >>> scenario = ackwise.Scenario.example().with_(**{
    ...     "arm": [{"name": "half", "policy": "none", "at": "client", "link": "wan"}],
    ... })
    >>> results = scenario.run(policies={"half": Half}, duration="2 s")
    >>> round(results.to_dicts()[0]["segments_per_ack"])
    3
    """

    def step(self, event: Event, /) -> Verdict | None:
        """Take the next event of the flow.

        Parameters
        ----------
        event : Event
            What happened, and what is known of the flow.

        Returns
        -------
        Verdict
            For an ACK: ``Verdict("send")``, or ``Verdict("hold", us)`` to hold it for at most that
            many µs (a whole number, 1 or more; D if left out), unless a newer ACK leaves first.
            Ignored for data, deadlines, and ACKs with the flag ``'must-send'``.
        """


class Param(typing.NamedTuple):
    """A parameter of a policy.

    Attributes
    ----------
    name : str
        Its name.
    unit : str
        Its unit; empty for a plain number.
    description : str
        What it is.
    default, least, most : int
        Its default value, and its bounds.
    """

    name: str
    unit: str
    description: str
    default: int
    least: int
    most: int


class PolicyInfo(typing.NamedTuple):
    """A built-in policy.

    Attributes
    ----------
    name : str
        Its name.
    summary : str
        What it does.
    source : str
        Where it comes from.
    needs : str
        What an environment must be able to do to run it.
    params : list of Param
        Its parameters.
    """

    name: str
    summary: str
    source: str
    needs: str
    params: list[Param]


def policies() -> list[PolicyInfo]:
    """Return all policies.

    Returns
    -------
    list of PolicyInfo
        In the order of ``policy/include/ackwise/policies.def``.

    Examples
    --------
    >>> import ackwise
    >>> [policy.name for policy in ackwise.policies()][:3]
    ['none', 'every-n', 'adaptive']
    """
    return [
        PolicyInfo(name, summary, source, needs, [Param(*param) for param in params])
        for name, summary, source, needs, params in _native.policies()
    ]


class Policy:
    """A policy for one flow: the C code that the kernel runs, one event at a time.

    It says what it would do. Whether an ACK may be withheld at all is up to the contract, which
    :class:`Flow` applies.

    Parameters
    ----------
    name : str
        Its name, or name and parameters as programs write them: ``'every-n:n=8,warm=0'``.
    **params : int
        Its parameters; :func:`policies` lists them.

    Raises
    ------
    PolicyError
        There is no such policy or parameter, or a value is out of bounds.

    Examples
    --------
    >>> from ackwise import Event, Policy
    >>> policy = Policy("every-n", n=4, warm=0)
    >>> policy.step(Event.ack(segments=2, mss=1448, hold_us=10_000))
    Verdict(kind='hold', hold_us=10000, reason='held', supersedes=False, twice=False)
    >>> policy.step(Event.ack(segments=4, mss=1448, hold_us=10_000)).why
    'the policy let it out'
    >>> Policy("every-n", n=0)
    Traceback (most recent call last):
    ackwise._errors.PolicyError: every-n: n must be from 1 to 256 segments, not 0
      `ackwise policies every-n` lists names and bounds
    """

    def __init__(self, name: str, **params: int) -> None:
        self._policy = _native.Policy(name, list(params.items()))

    def __reduce__(self) -> tuple[typing.Any, ...]:
        return _policy, (_native.VERSION, self.name, self.params, self.state)

    def __repr__(self) -> str:
        return f"<ackwise.Policy {self}>"

    def __str__(self) -> str:
        return str(self._policy)

    @property
    def name(self) -> str:
        """Its name."""
        return self._policy.name

    @property
    def reads_time(self) -> bool:
        """Whether its verdicts depend on the time of an event."""
        return self._policy.reads_time

    @property
    def sees_data(self) -> bool:
        """Whether it needs to see data."""
        return self._policy.sees_data

    @property
    def params(self) -> dict[str, int]:
        """All of its parameters."""
        return dict(self._policy.params)

    @property
    def state(self) -> bytes:
        """Its state of the flow: 64 bytes."""
        return bytes(self._policy.state)

    def step(self, event: Event) -> Verdict:
        """Take the next event of the flow.

        Parameters
        ----------
        event : Event
            The event.

        Returns
        -------
        Verdict
            Its verdict on an ACK, with the reason ``'held'``, ``'dropped'`` or ``'policy'``.
            Data and deadlines only change the state: ``'send'`` with the reason ``'not-ack'``.

        Raises
        ------
        ValueError
            There is no such kind of event or flag, or a number is negative, or too large: times
            have 64 bits, all others 32.
        """
        numbers = (
            event.bytes,
            event.segments,
            event.len,
            event.hops,
            event.peer_wnd,
            event.mss,
            event.rcv_wnd,
            event.srtt_us,
            event.min_rtt_us,
            event.hold_us,
        )
        flags = [event.flags] if isinstance(event.flags, str) else list(event.flags)
        kind, hold_us = self._policy.step(event.kind, event.now_us, flags, numbers)
        if event.kind != "ack":
            return Verdict("send", reason="not-ack")
        reason = {"hold": "held", "drop": "dropped"}.get(kind, "policy")
        return Verdict(kind, hold_us, reason)

    def reset(self) -> None:
        """Forget the flow."""
        self._policy.reset()


class Flow:
    """A flow under the contract: it takes packets, and says what a datapath would do with each ACK.

    Parameters
    ----------
    policy : Policy or str
        The policy; its state does not change, since a flow has its own.
    link : {'ip', 'ethernet'}
        The first header of a packet.
    hold_us : (int, int), optional
        Minimum and maximum hold, µs; 1,000 and 25,000 if left out.

    Raises
    ------
    ValueError
        There is no such link, the maximum hold is 0, or the minimum is above it.

    Examples
    --------
    >>> import ackwise
    >>> flow = ackwise.Flow("every-n:n=4,warm=0")
    >>> ack = bytes.fromhex(
    ...     "4500002800010000400600000a0000020a000001138a04d2000000010000271050100200b1d20000"
    ... )
    >>> flow.ack(ack, now_us=1_000)
    Verdict(kind='send', hold_us=None, reason='first', supersedes=False, twice=False)
    """

    def __init__(
        self,
        policy: Policy | str,
        *,
        link: str = "ip",
        hold_us: tuple[int, int] | None = None,
    ) -> None:
        if link not in ("ip", "ethernet"):
            raise ValueError(f"there is no link '{link}'; choose 'ip' or 'ethernet'")
        named = Policy(policy) if isinstance(policy, str) else policy
        self._made_of = (named.name, named.params, link, hold_us)
        self._flow = _native.Flow(named._policy, link == "ethernet", hold_us)

    def __reduce__(self) -> tuple[typing.Any, ...]:
        return _flow, (_native.VERSION, *self._made_of, self._flow.state)

    def data(self, packet: bytes, now_us: int) -> None:
        """Take a packet from the data sender.

        Parameters
        ----------
        packet : bytes
            The packet, from its first header on.
        now_us : int
            The time, µs.
        """
        self._flow.data(packet, now_us)

    def releases(self, packet: bytes) -> bool:
        """Return whether the held ACK has to leave before a packet to the data sender.

        Parameters
        ----------
        packet : bytes
            The packet. If the result is true, call :meth:`sent` with the held ACK and then
            :meth:`ack`.

        Returns
        -------
        bool
            Whether the packet says less than the held ACK.
        """
        return self._flow.releases(packet)

    def ack(self, packet: bytes, now_us: int) -> Verdict | None:
        """Take a packet to the data sender.

        Parameters
        ----------
        packet : bytes
            The packet, from its first header on.
        now_us : int
            The time, µs.

        Returns
        -------
        Verdict or None
            What to do, and why; ``None`` for the handshake, which passes.
        """
        decided = self._flow.ack(packet, now_us)
        return None if decided is None else Verdict(*decided)

    def sent(self, packet: bytes, now_us: int) -> None:
        """Note that a held ACK has left by itself.

        Parameters
        ----------
        packet : bytes
            That ACK.
        now_us : int
            The time, µs.
        """
        self._flow.sent(packet, now_us)

    @property
    def hold_us(self) -> int | None:
        """The longest hold that the contract grants now, µs; ``None`` before the first ACK."""
        return self._flow.hold_us

    @property
    def srtt_us(self) -> int | None:
        """The smoothed round-trip time, µs; ``None`` if it is not known."""
        return self._flow.srtt_us


def _policy(version: str, name: str, params: dict[str, int], state: bytes) -> Policy:
    """Return a policy that was pickled."""
    _same(version)
    policy = Policy(name, **params)
    policy._policy.restore(state)
    return policy


def _flow(
    version: str,
    name: str,
    params: dict[str, int],
    link: str,
    hold_us: tuple[int, int] | None,
    state: tuple[list[int] | None, list[int] | None],
) -> Flow:
    """Return a flow that was pickled."""
    _same(version)
    flow = Flow(Policy(name, **params), link=link, hold_us=hold_us)
    flow._flow.restore(state)
    return flow


def _same(version: str) -> None:
    """Refuse what another version pickled: states have no fixed format."""
    if version != _native.VERSION:
        raise ValueError(
            f"ackwise {version} pickled this, and here is {_native.VERSION}: the state of a flow "
            "can only be read by the version that wrote it\n"
            "  install the same version of ackwise everywhere"
        )
