"""What the ACKs in a capture cost."""

from __future__ import annotations

import json
import os
import typing
from collections.abc import Iterable
from pathlib import Path

from ackwise import _native
from ackwise._policy import Policy


def analyze(
    capture: str | os.PathLike[str] | bytes,
    *,
    policies: str | Policy | Iterable[str | Policy] | None = None,
    up: str | None = None,
    down: str | None = None,
    wifi: str | None = None,
) -> dict[str, typing.Any]:
    """Say what the ACKs in a capture cost, and what policies would have withheld.

    Parameters
    ----------
    capture : path-like or bytes
        A file, or the contents of one: pcap or pcapng, plain or compressed by gzip or zstd.
    policies : str, Policy or iterable of these, optional
        The policies to try, e.g. ``['adaptive', 'every-n:n=4']``; a default set if left out.
    up, down, wifi : str, optional
        Rates of the uplink, the downlink and the Wi-Fi channel, e.g. ``'5 Mbit/s'``.

    Returns
    -------
    dict
        What ``ackwise analyze --format json`` prints for a file; ``docs/analyze.md`` explains it.
        ``file`` is ``'-'`` for bytes.

    Raises
    ------
    CaptureError
        The capture cannot be read; the text is that of ``ackwise``.
    PolicyError
        There is no such policy, or it does not take a parameter.

    Examples
    --------
    >>> import ackwise
    >>> ackwise.analyze(b"GET / HTTP/1.1")
    Traceback (most recent call last):
    ackwise._errors.CaptureError: -: it begins with [47, 45, 54, 20]: that is no capture file of \
the formats pcap or pcapng
      capture with `tcpdump -i IFACE -s 128 -w FILE tcp`
    """
    source: bytes | Path = capture if isinstance(capture, bytes) else Path(capture)
    if isinstance(policies, (str, Policy)):
        policies = [policies]
    named = None if policies is None else [str(policy) for policy in policies]
    text = _native.analyze(source, name="-", policies=named, up=up, down=down, wifi=wifi)
    found: dict[str, typing.Any] = json.loads(text)
    return found
