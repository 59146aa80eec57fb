"""TCP acknowledgment experiments: scenarios, an exact simulator, ACK policies and captures.

Examples
--------
>>> import ackwise
>>> results = ackwise.Scenario.example().run(on="sim", cc=["cubic"])
>>> results.to_pandas()[["arm", "goodput_bps"]].round(0)
        arm  goodput_bps
0  baseline    7962109.0
1  adaptive   42552703.0
"""

from ackwise._capture import analyze
from ackwise._errors import (
    CaptureError,
    Diagnostic,
    Error,
    PolicyError,
    ProgramError,
    RunError,
    ScenarioError,
    StoreError,
    TooLargeError,
)
from ackwise._native import VERSION as __version__
from ackwise._native import congestion_controls
from ackwise._policy import (
    Event,
    Flow,
    FlowPolicy,
    Param,
    Policy,
    PolicyInfo,
    Verdict,
    policies,
)
from ackwise._progress import Progress
from ackwise._results import Column, Results, Table
from ackwise._scenario import Scenario
from ackwise._sweep import sweep

__all__ = [
    "CaptureError",
    "Column",
    "Diagnostic",
    "Error",
    "Event",
    "Flow",
    "FlowPolicy",
    "Param",
    "Policy",
    "PolicyError",
    "PolicyInfo",
    "ProgramError",
    "Progress",
    "Results",
    "RunError",
    "Scenario",
    "ScenarioError",
    "StoreError",
    "Table",
    "TooLargeError",
    "Verdict",
    "__version__",
    "analyze",
    "congestion_controls",
    "policies",
    "sweep",
]
