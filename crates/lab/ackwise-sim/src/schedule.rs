//! The event queue.
//!
//! Each line has at most one event, in a leaf of a tree whose inner nodes hold the
//! earlier of their two children, so that a new time replaces the old one. All other
//! events (lazy timers, one for each end of a connection) wait in a 4-ary heap. The
//! order is total: by time, and at the same time by the order in which the events
//! were entered.

use ackwise_queue::Nanos;

/// Bits of an event that encode its target.
const TARGET_BITS: u32 = 28;
const KIND_BITS: u32 = 3;
const INDEX_BITS: u32 = TARGET_BITS - KIND_BITS;
/// The highest index of an element of one kind.
pub const MAX_INDEX: usize = (1 << INDEX_BITS) - 1;
/// The maximum number of events that a run may enter: the bits of a word that the target leaves.
pub const MAX_EVENTS: u64 = (1 << (64 - TARGET_BITS)) - 1;

/// What an event is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A link's direction has something to hand over.
    Line(usize),
    /// A sender's timer.
    Sender(usize),
    /// A receiver's timer.
    Receiver(usize),
    /// A withheld acknowledgment is due.
    Hold(usize),
    /// An application starts.
    Start(usize),
    /// A sample of everything.
    Sample,
}

impl Target {
    fn pack(self) -> u64 {
        let (kind, index) = match self {
            Target::Line(index) => (0, index),
            Target::Sender(index) => (1, index),
            Target::Receiver(index) => (2, index),
            Target::Hold(index) => (3, index),
            Target::Start(index) => (4, index),
            Target::Sample => (5, 0),
        };
        debug_assert!(index <= MAX_INDEX);
        kind << INDEX_BITS | index as u64
    }

    fn unpack(packed: u64) -> Target {
        let index = packed as usize & MAX_INDEX;
        match packed >> INDEX_BITS & ((1 << KIND_BITS) - 1) {
            0 => Target::Line(index),
            1 => Target::Sender(index),
            2 => Target::Receiver(index),
            3 => Target::Hold(index),
            4 => Target::Start(index),
            _ => Target::Sample,
        }
    }
}

/// Later than every event.
const NEVER: u128 = u128::MAX;

/// The pending events.
///
/// An event is one number: time, order of entry and target from the highest bit
/// down, so that a comparison is one of two integers, and four children share
/// a cache line.
#[derive(Debug)]
pub struct Schedule {
    /// The tree of the lines: element 1 is the root, and the second half are the leaves.
    lines: Vec<u128>,
    /// Events that are not for lines.
    heap: Vec<u128>,
    /// The root of the heap was taken and not refilled: the next event to be
    /// entered goes there, which saves half of the work.
    hole: bool,
    entered: u64,
}

impl Schedule {
    /// An empty schedule for this many lines.
    pub fn new(lines: usize) -> Schedule {
        Schedule {
            lines: vec![NEVER; 2 * lines.max(1).next_power_of_two()],
            heap: Vec::new(),
            hole: false,
            entered: 0,
        }
    }

    /// How many events were entered so far.
    pub fn entered(&self) -> u64 {
        self.entered
    }

    /// The key of a new event, with the next order number.
    #[inline]
    fn key(&mut self, at: Nanos, target: Target) -> u128 {
        self.entered += 1;
        let order = self.entered & MAX_EVENTS;
        let low = order << TARGET_BITS | target.pack();
        u128::from(at) << 64 | u128::from(low)
    }

    /// Enters an event; for a line, it replaces the pending one.
    #[inline]
    pub fn push(&mut self, at: Nanos, target: Target) {
        let key = self.key(at, target);
        if let Target::Line(line) = target {
            self.carry(line, key);
        } else if self.hole {
            self.hole = false;
            self.sift_down(key);
        } else {
            self.heap.push(key);
            self.sift_up(key);
        }
    }

    /// Removes the event of a line without replacement.
    #[inline]
    pub fn clear(&mut self, line: usize) {
        self.carry(line, NEVER);
    }

    /// Stores a key in a leaf and updates the nodes above it.
    #[inline]
    fn carry(&mut self, line: usize, mut key: u128) {
        let nodes = self.lines.as_mut_slice();
        // The length is a power of two, so a masked index is never out of range.
        let mask = nodes.len() - 1;
        let mut at = nodes.len() / 2 + line;
        nodes[at & mask] = key;
        while at > 1 {
            key = key.min(nodes[(at ^ 1) & mask]);
            at /= 2;
            nodes[at & mask] = key;
        }
    }

    /// The next event, unless it is later than `end`. The event of a line stays until
    /// another replaces it, or it is cleared.
    #[inline]
    pub fn pop(&mut self, end: Nanos) -> Option<(Nanos, Target)> {
        if self.hole {
            self.fill();
        }
        let line = self.lines[1];
        let other = self.heap.first().copied().unwrap_or(NEVER);
        let key = line.min(other);
        let at = (key >> 64) as Nanos;
        if at > end || key == NEVER {
            return None;
        }
        self.hole = other < line;
        Some((at, Target::unpack(key as u64)))
    }

    fn fill(&mut self) {
        self.hole = false;
        match self.heap.pop() {
            Some(last) if !self.heap.is_empty() => self.sift_down(last),
            _ => {}
        }
    }

    fn sift_up(&mut self, key: u128) {
        let mut at = self.heap.len() - 1;
        while at > 0 {
            let parent = (at - 1) / 4;
            if self.heap[parent] <= key {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = key;
    }

    /// Places `key` at the root and sifts it down.
    fn sift_down(&mut self, key: u128) {
        let heap = self.heap.as_mut_slice();
        let mut at = 0;
        loop {
            let first = 4 * at + 1;
            let (least, child) = match heap.get(first..first + 4) {
                Some(four) => {
                    let pick = |a: usize, b: usize| if four[b] < four[a] { b } else { a };
                    let least = pick(pick(0, 1), pick(2, 3));
                    (four[least], first + least)
                }
                None => {
                    let rest = heap.get(first..).unwrap_or_default();
                    match rest.iter().enumerate().min_by_key(|(_, key)| **key) {
                        Some((offset, least)) => (*least, first + offset),
                        None => break,
                    }
                }
            };
            if key <= least {
                break;
            }
            heap[at] = least;
            at = child;
        }
        heap[at] = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Takes an event and clears it if it is for a line.
    fn take(schedule: &mut Schedule, end: Nanos) -> Option<(Nanos, Target)> {
        let taken = schedule.pop(end);
        if let Some((_, Target::Line(line))) = taken {
            schedule.clear(line);
        }
        taken
    }

    #[test]
    fn ties_leave_in_the_order_of_entry() {
        let mut schedule = Schedule::new(3);
        for (at, target) in [
            (5, Target::Line(0)),
            (3, Target::Sender(1)),
            (5, Target::Sender(2)),
            (3, Target::Line(1)),
            (0, Target::Sender(4)),
            (5, Target::Line(2)),
        ] {
            schedule.push(at, target);
        }
        let order: Vec<_> = std::iter::from_fn(|| take(&mut schedule, Nanos::MAX)).collect();
        let expected = [
            (0, Target::Sender(4)),
            (3, Target::Sender(1)),
            (3, Target::Line(1)),
            (5, Target::Line(0)),
            (5, Target::Sender(2)),
            (5, Target::Line(2)),
        ];
        assert_eq!(order, expected);
    }

    #[test]
    fn nothing_leaves_after_the_end() {
        let mut schedule = Schedule::new(0);
        schedule.push(10, Target::Sample);
        assert_eq!(schedule.pop(9), None);
        assert_eq!(schedule.pop(10), Some((10, Target::Sample)));
        assert_eq!(schedule.pop(Nanos::MAX), None);
    }

    #[test]
    fn a_line_has_one_event() {
        let mut schedule = Schedule::new(5);
        schedule.push(7, Target::Line(4));
        schedule.push(6, Target::Line(4));
        schedule.push(6, Target::Line(3));
        assert_eq!(take(&mut schedule, 6), Some((6, Target::Line(4))));
        assert_eq!(take(&mut schedule, 6), Some((6, Target::Line(3))));
        assert_eq!(take(&mut schedule, Nanos::MAX), None);
    }

    #[test]
    fn every_target_survives_packing() {
        for target in [
            Target::Line(MAX_INDEX),
            Target::Sender(7),
            Target::Receiver(0),
            Target::Hold(3),
            Target::Start(MAX_INDEX),
            Target::Sample,
        ] {
            assert_eq!(Target::unpack(target.pack()), target);
        }
    }

    proptest! {
        /// Compares the schedule with a sorted list, with entries and removals mixed.
        #[test]
        fn the_order_is_that_of_a_sorted_list(
            lines in 1usize..40,
            steps in proptest::collection::vec((prop::bool::weighted(0.6), any::<u16>(), 0u64..50), 1..600),
        ) {
            let mut schedule = Schedule::new(lines);
            let mut model = std::collections::BTreeMap::new();
            for (entered, (push, target_index, at)) in steps.into_iter().enumerate() {
                let target_index = usize::from(target_index);
                if push {
                    let target = match target_index % 2 {
                        0 => Target::Line(target_index / 2 % lines),
                        _ => Target::Sender(entered),
                    };
                    schedule.push(at, target);
                    if let Target::Line(_) = target {
                        model.retain(|_, other| *other != target);
                    }
                    model.insert((at, entered), target);
                } else {
                    let expected = model.pop_first().map(|((at, _), target)| (at, target));
                    prop_assert_eq!(take(&mut schedule, Nanos::MAX), expected);
                }
            }
            while let Some(((at, _), target)) = model.pop_first() {
                prop_assert_eq!(take(&mut schedule, Nanos::MAX), Some((at, target)));
            }
            prop_assert_eq!(schedule.pop(Nanos::MAX), None);
        }
    }
}
