//! What the link has served, as round trips reveal it.

use std::collections::VecDeque;

use crate::Nanos;

const SECOND: u128 = 1_000_000_000;
/// The maximum number of points kept.
const MAX_POINTS: usize = 64;
/// Fewer bytes are too little load to show what a link carries: two full packets.
const MIN_BYTES: u64 = 2 * 1514;
/// The maximum age of a point.
const MAX_AGE: Nanos = 2_000_000_000;

/// A timed round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The time at which the packet left the interface.
    pub left_ns: Nanos,
    /// Bytes that had left by then, this packet included, as they count against the rate.
    pub bytes: u64,
    /// The excess over the minimum of its connection, µs: the time for which it waited.
    pub waited_us: u32,
}

/// A point of the curve.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    /// The time at which the link had served these bytes, if something waited.
    pub served_ns: Nanos,
    pub bytes: u64,
    pub waited_us: u32,
}

/// Recent points, in the order in which the packets left.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServiceCurve {
    points: VecDeque<Point>,
}

impl ServiceCurve {
    pub fn clear(&mut self) {
        self.points.clear();
    }

    pub fn last(&self) -> Option<Point> {
        self.points.back().copied()
    }

    /// Adds a point. A point out of order is ignored.
    pub fn push(&mut self, point: Point) {
        if let Some(last) = self.points.back()
            && (point.bytes <= last.bytes || point.served_ns <= last.served_ns)
        {
            return;
        }
        self.points.push_back(point);
        while self.points.len() > MAX_POINTS
            || self
                .points
                .front()
                .is_some_and(|first| point.served_ns - first.served_ns > MAX_AGE)
        {
            self.points.pop_front();
        }
    }

    /// Returns the slope in bit/s over the last points with a wait of more than `low_us`: over at
    /// least `span` and two full packets, and as little more as the points allow.
    pub fn capacity(&self, low_us: u32, span: Nanos) -> Option<u64> {
        let last = self.last()?;
        let shows_enough = |from: &Point| {
            last.served_ns - from.served_ns >= span && last.bytes - from.bytes >= MIN_BYTES
        };
        let mut from = None;
        for point in self.points.iter().rev() {
            // The queue that the first packet found was not empty before it.
            if point.waited_us <= low_us {
                break;
            }
            from = Some(*point);
            if shows_enough(point) {
                break;
            }
        }
        let from = from.filter(shows_enough)?;
        bits_per_s(last.bytes - from.bytes, last.served_ns - from.served_ns)
    }
}

/// A rate in bit/s.
pub(crate) fn bits_per_s(bytes: u64, span: Nanos) -> Option<u64> {
    let bits = 8 * u128::from(bytes) * SECOND;
    let rate = bits.checked_div(u128::from(span))?;
    u64::try_from(rate).ok()
}
