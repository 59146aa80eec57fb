//! Reassembly: what has arrived, in and out of order, and what to report of it.

use crate::packet::{Block, Sack};

/// The kind of an arriving segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The next segment, with nothing waiting above it.
    InOrder,
    /// The next segment, below a hole that it fills in whole or in part.
    FillsGap,
    /// New data above a hole.
    OutOfOrder,
    /// No new data.
    Duplicate,
}

/// The receive sequence space.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reassembly {
    /// The next byte expected.
    next: u64,
    /// Data that wait above `next`: sorted, disjoint ranges.
    waiting: Vec<Block>,
    /// Ranges in the order of their last change, newest first (RFC 2018 §4).
    recent: Sack,
    /// A duplicate to be reported once by DSACK (RFC 2883 §4).
    twice: Option<Block>,
}

impl Reassembly {
    pub fn next(&self) -> u64 {
        self.next
    }

    pub fn has_holes(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Bytes that wait for a hole to be filled.
    pub fn held(&self) -> u64 {
        self.waiting.iter().map(|b| b.end - b.start).sum()
    }

    /// Inserts a segment, and returns its kind.
    pub fn insert(&mut self, segment: Block) -> Arrival {
        if segment.end <= self.next {
            self.twice = Some(segment);
            return Arrival::Duplicate;
        }
        if segment.start > self.next {
            return self.insert_above(segment);
        }
        let filled = self.has_holes();
        self.next = segment.end;
        if !filled {
            return Arrival::InOrder;
        }
        let done = self.waiting.partition_point(|b| b.start <= self.next);
        for block in self.waiting.drain(..done) {
            self.next = self.next.max(block.end);
        }
        let next = self.next;
        self.keep_recent(|b| b.end > next);
        Arrival::FillsGap
    }

    fn insert_above(&mut self, segment: Block) -> Arrival {
        // Ranges that touch the segment are merged with it.
        let first = self.waiting.partition_point(|b| b.end < segment.start);
        let last = self.waiting.partition_point(|b| b.start <= segment.end);
        let mut merged = segment;
        let mut known = false;
        if let Some(touching) = self.waiting.get(first..last).filter(|t| !t.is_empty()) {
            known = touching
                .iter()
                .any(|b| b.start <= segment.start && segment.end <= b.end);
            merged.start = merged.start.min(touching[0].start);
            merged.end = merged.end.max(touching[touching.len() - 1].end);
            self.waiting[first] = merged;
            self.waiting.drain(first + 1..last);
        } else {
            self.waiting.insert(first, merged);
        }
        if known {
            self.twice = Some(segment);
        }
        self.promote(merged);
        if known {
            Arrival::Duplicate
        } else {
            Arrival::OutOfOrder
        }
    }

    /// Puts a range first, and removes those that it covers.
    fn promote(&mut self, block: Block) {
        let mut recent = Sack::default();
        recent.push(block);
        for old in self.recent.blocks() {
            if old.end < block.start || old.start > block.end {
                recent.push(*old);
            }
        }
        self.recent = recent;
    }

    fn keep_recent(&mut self, keep: impl Fn(&Block) -> bool) {
        let mut recent = Sack::default();
        for block in self.recent.blocks().iter().filter(|b| keep(b)) {
            recent.push(*block);
        }
        self.recent = recent;
    }

    /// Whether the next ACK may have SACK blocks.
    pub fn has_news(&self) -> bool {
        !self.recent.is_empty() || self.twice.is_some()
    }

    /// SACK blocks for the next ACK; a DSACK comes first.
    pub fn sack(&self, dsack: bool) -> Sack {
        let Some(twice) = self.twice.filter(|_| dsack) else {
            return self.recent;
        };
        let mut sack = Sack::default();
        sack.push(twice);
        for block in self.recent.blocks() {
            sack.push(*block);
        }
        sack
    }

    /// An ACK left with the blocks: a DSACK is reported once.
    pub fn on_ack_sent(&mut self) {
        self.twice = None;
    }
}
