//! What happens next.
//!
//! A 4-ary heap of few events: one for each link that carries something, one
//! lazy timer for each end of a connection. The order is total: by time, and at
//! the same time by the order in which the events were entered.

use ackwise_net::Nanos;

/// Bits of an event that name whom it is for.
const TARGET_BITS: u32 = 28;
const KIND_BITS: u32 = 3;
const INDEX_BITS: u32 = TARGET_BITS - KIND_BITS;
/// Most elements of one kind.
pub const MAX_INDEX: usize = (1 << INDEX_BITS) - 1;
/// Most events that a run may enter: what is left of a word beside the target.
pub const MAX_EVENTS: u64 = (1 << (64 - TARGET_BITS)) - 1;

/// Whom an event is for.
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
    /// An application begins.
    Start(usize),
    /// A look at everything.
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

/// The events to come.
///
/// An event is one number: time, order of entry and target from the highest bit
/// down, so that a comparison is that of two integers, and four children share
/// a cache line.
#[derive(Debug, Default)]
pub struct Schedule {
    heap: Vec<u128>,
    /// The root was taken and not filled yet: the next event that is entered
    /// goes there, which saves half of the work.
    hole: bool,
    entered: u64,
}

impl Schedule {
    /// How many events were entered so far.
    pub fn entered(&self) -> u64 {
        self.entered
    }

    /// Enters an event.
    #[inline]
    pub fn push(&mut self, at: Nanos, target: Target) {
        self.entered += 1;
        let order = self.entered & MAX_EVENTS;
        let low = order << TARGET_BITS | target.pack();
        let key = u128::from(at) << 64 | u128::from(low);
        if self.hole {
            self.hole = false;
            self.sift_down(key);
        } else {
            self.heap.push(key);
            self.sift_up(key);
        }
    }

    /// The next event, unless it is later than `end`.
    #[inline]
    pub fn pop(&mut self, end: Nanos) -> Option<(Nanos, Target)> {
        if self.hole {
            self.hole = false;
            match self.heap.pop() {
                Some(last) if !self.heap.is_empty() => self.sift_down(last),
                _ => {}
            }
        }
        let key = *self.heap.first()?;
        let at = (key >> 64) as Nanos;
        if at > end {
            return None;
        }
        self.hole = true;
        Some((at, Target::unpack(key as u64)))
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

    /// Puts `key` in the place of the root.
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

    #[test]
    fn ties_leave_in_the_order_of_entry() {
        let mut schedule = Schedule::default();
        for (at, index) in [(5, 0), (3, 1), (5, 2), (3, 3), (0, 4)] {
            schedule.push(at, Target::Line(index));
        }
        let order: Vec<_> = std::iter::from_fn(|| schedule.pop(Nanos::MAX)).collect();
        let expected = [(0, 4), (3, 1), (3, 3), (5, 0), (5, 2)];
        assert_eq!(order, expected.map(|(at, index)| (at, Target::Line(index))));
    }

    #[test]
    fn nothing_leaves_after_the_end() {
        let mut schedule = Schedule::default();
        schedule.push(10, Target::Sample);
        assert_eq!(schedule.pop(9), None);
        assert_eq!(schedule.pop(10), Some((10, Target::Sample)));
        assert_eq!(schedule.pop(Nanos::MAX), None);
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
        /// Against the standard heap, with entries and removals mixed.
        #[test]
        fn the_order_is_that_of_a_sorted_list(steps in proptest::collection::vec((any::<bool>(), 0u64..50), 1..400)) {
            let mut schedule = Schedule::default();
            let mut model = std::collections::BTreeSet::new();
            let mut entered = 0usize;
            for (push, at) in steps {
                if push {
                    schedule.push(at, Target::Sender(entered));
                    model.insert((at, entered));
                    entered += 1;
                } else {
                    let expected = model.pop_first().map(|(at, n)| (at, Target::Sender(n)));
                    prop_assert_eq!(schedule.pop(Nanos::MAX), expected);
                }
            }
            while let Some((at, n)) = model.pop_first() {
                prop_assert_eq!(schedule.pop(Nanos::MAX), Some((at, Target::Sender(n))));
            }
            prop_assert_eq!(schedule.pop(Nanos::MAX), None);
        }
    }
}
