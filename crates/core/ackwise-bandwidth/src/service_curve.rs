//! What the link has served, as round trips show it.

use std::collections::VecDeque;

use crate::Nanos;

const SECOND: u128 = 1_000_000_000;
/// Points that are kept at most.
const KEPT: usize = 64;
/// Less than this is no load that could show what a link carries: two full packets.
const MIN_BYTES: u64 = 2 * 1514;
/// The age of the oldest point that is kept.
const MAX_AGE: Nanos = 2_000_000_000;

/// A round trip that was timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When the packet left the interface.
    pub left_ns: Nanos,
    /// The bytes that had left by then, itself among them, as they count against the rate.
    pub bytes: u64,
    /// What it took beyond the least of its connection, µs: the time for which it waited.
    pub waited_us: u32,
}

/// A point of the curve.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    /// When the link had served so many bytes, if something waited.
    pub served_ns: Nanos,
    pub bytes: u64,
    pub waited_us: u32,
}

/// The points of late, in the order in which packets left.
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

    /// Adds a point. One that comes out of order is left out.
    pub fn push(&mut self, point: Point) {
        if let Some(last) = self.points.back()
            && (point.bytes <= last.bytes || point.served_ns <= last.served_ns)
        {
            return;
        }
        self.points.push_back(point);
        while self.points.len() > KEPT
            || self
                .points
                .front()
                .is_some_and(|first| point.served_ns - first.served_ns > MAX_AGE)
        {
            self.points.pop_front();
        }
    }

    /// Returns the slope in bit/s over the last points at which more than `low_us` waited: over
    /// `span` and some full packets at least, and as little more as the points allow.
    pub fn capacity(&self, low_us: u32, span: Nanos) -> Option<u64> {
        let last = self.last()?;
        let shows_enough = |from: &Point| {
            last.served_ns - from.served_ns >= span && last.bytes - from.bytes >= MIN_BYTES
        };
        let mut from = None;
        for point in self.points.iter().rev() {
            // The queue that the first of them found was not empty before it.
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
