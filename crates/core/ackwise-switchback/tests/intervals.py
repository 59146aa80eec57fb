#!/usr/bin/env python3
"""Works out the intervals of tests/intervals.json, independently of the Rust code.

It follows the words of src/effect.rs, with products instead of logarithms where they fit, a grid
instead of a bisection, and numbers of 50 digits. It also checks the claim that the interval lies
within that of the self-normalised normal bound with the same bets (de la Pena 1999; Howard et al.
2021 call the observations conditionally symmetric).
"""

import json
import math
from decimal import Decimal, getcontext
from pathlib import Path

getcontext().prec = 50
BETS = [Decimal(b) for b in ("0.5", "1", "2", "4", "8", "16", "32", "64")]
WIDEST = Decimal(10)
ALPHA = Decimal("0.05")


def symmetric(differences: list[Decimal], effect: Decimal) -> Decimal:
    """The martingale against effects of at most `effect`."""
    total = Decimal(0)
    for bet in BETS:
        product = Decimal(1)
        for difference in differences:
            product *= 2 / (1 + (-2 * bet * (difference - effect)).exp())
        total += product
    return total / len(BETS)


def normal(differences: list[Decimal], effect: Decimal) -> Decimal:
    """The same with exp(y - y^2/2) for each factor."""
    total = Decimal(0)
    for bet in BETS:
        exponent = Decimal(0)
        for difference in differences:
            y = bet * (difference - effect)
            exponent += y - y * y / 2
        total += exponent.exp()
    return total / len(BETS)


def lower(differences: list[Decimal], martingale) -> Decimal | None:
    """The largest excluded effect below the data, to 1e-7; None if there is none.

    It refines a grid, so that it does not depend on the martingale being monotone.
    """
    limit = 2 / ALPHA
    middle = sorted(differences)[len(differences) // 2]
    start, step, best = -WIDEST, (middle + WIDEST) / 40, None
    while step > Decimal("1e-8"):
        grid = [start + step * n for n in range(42)]
        out = [effect for effect in grid if effect <= WIDEST and martingale(differences, effect) >= limit]
        if not out:
            return best
        best = max(out)
        start, step = best, step / 40
    return best


def main() -> None:
    """Writes the file."""
    rows = []
    for seed, (n, shift, spread) in enumerate(
        [(4, 0.0, 0.1), (12, 0.5, 0.1), (20, -0.105, 0.05), (40, -0.105, 0.1), (60, 0.0, 0.3), (80, 0.02, 0.02)]
    ):
        # No generator that the Rust code has: the fractional parts of multiples of an irrational.
        noise = [((k + 1) * math.sqrt(2 + seed) * 10) % 1 - 0.5 for k in range(n)]
        exact = [round(shift + 2 * spread * x, 6) for x in noise]
        differences = [Decimal(str(x)) for x in exact]
        mirrored = [-x for x in differences]
        low, high = lower(differences, symmetric), lower(mirrored, symmetric)
        wide = lower(differences, normal)
        assert wide is None or (low is not None and low >= wide - Decimal("1e-6")), (low, wide)
        rows.append(
            {
                "differences": exact,
                "low": 0.0 if low is None else float(low.exp()),
                "high": None if high is None else float((-high).exp()),
            }
        )
    path = Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
