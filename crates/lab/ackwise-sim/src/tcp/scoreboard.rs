//! The scoreboard: one entry for each outstanding segment, in order.

use std::collections::VecDeque;

use ackwise_queue::Nanos;
use bitflags::bitflags;

use crate::packet::Block;

bitflags! {
    /// State of a segment.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(crate) struct Mark: u8 {
        /// The receiver has it.
        const SACKED = 1;
        /// The segment is marked lost.
        const LOST = 1 << 1;
        /// A retransmission of the segment is outstanding.
        const RETRANS = 1 << 2;
        /// The segment was retransmitted at some time.
        const EVER = 1 << 3;
    }
}

/// An outstanding segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seg {
    pub seq: u64,
    pub len: u32,
    pub mark: Mark,
    /// When it was last sent.
    pub sent: Nanos,
}

impl Seg {
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }
}

/// The segments between the cumulative ACK and the highest byte sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scoreboard {
    segs: VecDeque<Seg>,
    sacked: u32,
    lost: u32,
    retrans: u32,
    /// How many times a segment was marked lost so far.
    losses: u64,
    /// End of the highest SACKed segment; 0 if there is none.
    high_sacked: u64,
    /// No segment below this is lost and waiting for retransmission.
    hint: u64,
    /// Every segment below this that is not SACKed was judged by the duplicates above it.
    judged: u64,
}

impl Scoreboard {
    /// Number of outstanding segments.
    pub fn len(&self) -> u32 {
        self.segs.len() as u32
    }

    pub fn sacked(&self) -> u32 {
        self.sacked
    }

    pub fn lost(&self) -> u32 {
        self.lost
    }

    /// How many times a segment was marked lost so far; lost retransmissions count too.
    pub fn losses(&self) -> u64 {
        self.losses
    }

    pub fn retrans(&self) -> u32 {
        self.retrans
    }

    pub fn high_sacked(&self) -> u64 {
        self.high_sacked
    }

    /// Segments in the network: RFC 6675's pipe, Linux's packets in flight.
    pub fn in_flight(&self) -> u32 {
        self.len() - self.sacked - self.lost + self.retrans
    }

    pub fn first(&self) -> Option<&Seg> {
        self.segs.front()
    }

    pub fn last(&self) -> Option<&Seg> {
        self.segs.back()
    }

    pub fn get(&self, i: usize) -> Option<&Seg> {
        self.segs.get(i)
    }

    /// Adds a new segment that was sent.
    pub fn push(&mut self, seq: u64, len: u32, now: Nanos) {
        debug_assert!(self.last().is_none_or(|s| s.end() == seq));
        self.segs.push_back(Seg {
            seq,
            len,
            mark: Mark::default(),
            sent: now,
        });
    }

    /// Removes the first segment if the cumulative ACK covers it.
    pub fn pop_below(&mut self, ack: u64) -> Option<Seg> {
        let seg = *self.segs.front().filter(|s| s.end() <= ack)?;
        self.segs.pop_front();
        self.sacked -= u32::from(seg.mark.contains(Mark::SACKED));
        self.lost -= u32::from(seg.mark.contains(Mark::LOST));
        self.retrans -= u32::from(seg.mark.contains(Mark::RETRANS));
        if self.segs.is_empty() {
            self.high_sacked = 0;
        }
        Some(seg)
    }

    /// Trims the acknowledged part of the first segment.
    pub fn trim(&mut self, ack: u64) {
        if let Some(first) = self.segs.front_mut()
            && first.seq < ack
        {
            first.len -= (ack - first.seq) as u32;
            first.seq = ack;
        }
    }

    /// Calls `f` for each segment that the block newly covers, with its index on the
    /// scoreboard and its state before.
    pub fn sack(&mut self, block: Block, mut f: impl FnMut(usize, &Seg)) {
        let from = self.segs.partition_point(|s| s.seq < block.start);
        for (offset, seg) in self.segs.range_mut(from..).enumerate() {
            if seg.end() > block.end {
                break;
            }
            if seg.mark.contains(Mark::SACKED) {
                continue;
            }
            f(from + offset, seg);
            self.sacked += 1;
            self.lost -= u32::from(seg.mark.contains(Mark::LOST));
            self.retrans -= u32::from(seg.mark.contains(Mark::RETRANS));
            seg.mark -= Mark::LOST | Mark::RETRANS;
            seg.mark |= Mark::SACKED;
            self.high_sacked = self.high_sacked.max(seg.end());
        }
    }

    /// Marks a segment lost, or its retransmission if one is outstanding.
    pub fn mark_lost(&mut self, i: usize) {
        let Some(seg) = self.segs.get_mut(i) else {
            return;
        };
        if seg.mark.contains(Mark::SACKED) {
            return;
        }
        if seg.mark.contains(Mark::RETRANS) {
            seg.mark -= Mark::RETRANS;
            self.retrans -= 1;
            self.losses += 1;
        }
        if !seg.mark.contains(Mark::LOST) {
            seg.mark |= Mark::LOST;
            self.lost += 1;
            self.losses += 1;
        }
        self.hint = self.hint.min(seg.seq);
    }

    /// Clears all loss marks.
    pub fn clear_lost(&mut self) {
        for seg in &mut self.segs {
            seg.mark -= Mark::LOST;
        }
        self.lost = 0;
    }

    /// RFC 6675 §3, IsLost(): not SACKed, and with `dupthresh` separate runs of SACKed
    /// segments above it, or more than `dupthresh - 1` segments' worth of bytes.
    pub fn judge(&mut self, dupthresh: u32, mss: u32) {
        let enough = u64::from(dupthresh - 1) * u64::from(mss);
        let (mut bytes, mut runs, mut above) = (0, 0, false);
        let top = self.segs.partition_point(|s| s.seq < self.high_sacked);
        let mut edge = None;
        for i in (0..top).rev() {
            let seg = &self.segs[i];
            let sacked = seg.mark.contains(Mark::SACKED);
            if sacked {
                bytes += u64::from(seg.len);
                runs += u32::from(!above);
            }
            above = sacked;
            if bytes > enough || runs >= dupthresh {
                edge = Some(i);
                break;
            }
        }
        let Some(edge) = edge else { return };
        let from = self.segs.partition_point(|s| s.seq < self.judged);
        for i in from..edge {
            let fresh = !self.segs[i]
                .mark
                .intersects(Mark::SACKED | Mark::LOST | Mark::RETRANS);
            if fresh {
                self.mark_lost(i);
            }
        }
        self.judged = self.judged.max(self.segs[edge].seq);
    }

    /// The first lost segment that has no retransmission outstanding.
    pub fn next_lost(&mut self) -> Option<usize> {
        if self.lost == 0 {
            return None;
        }
        let from = self.segs.partition_point(|s| s.seq < self.hint);
        let found = (from..self.segs.len()).find(|i| {
            let mark = self.segs[*i].mark;
            mark.contains(Mark::LOST) && !mark.contains(Mark::RETRANS)
        });
        self.hint = match found {
            Some(i) => self.segs[i].seq,
            None => self.last().map_or(0, Seg::end),
        };
        found
    }

    /// RFC 6675 §4, NextSeg() rule 3: the first segment at or above `from`, below the
    /// highest SACKed one, that is neither SACKed nor retransmitted.
    pub fn next_unsacked(&self, from: u64) -> Option<usize> {
        let start = self.segs.partition_point(|s| s.seq < from);
        (start..self.segs.len())
            .take_while(|i| self.segs[*i].seq < self.high_sacked)
            .find(|i| !self.segs[*i].mark.intersects(Mark::SACKED | Mark::RETRANS))
    }

    /// The last segment that is not SACKed.
    pub fn last_unsacked(&self) -> Option<usize> {
        (0..self.segs.len())
            .rev()
            .find(|i| !self.segs[*i].mark.contains(Mark::SACKED))
    }

    /// The index of the segment that begins at this number.
    pub fn find(&self, seq: u64) -> Option<usize> {
        let i = self.segs.partition_point(|s| s.seq < seq);
        self.segs.get(i).filter(|s| s.seq == seq).map(|_| i)
    }

    /// How many segments inside the block were retransmitted at some time.
    pub fn resent_within(&self, block: Block) -> u64 {
        let from = self.segs.partition_point(|s| s.seq < block.start);
        let within = self.segs.range(from..).take_while(|s| s.end() <= block.end);
        within.filter(|s| s.mark.contains(Mark::EVER)).count() as u64
    }

    /// Marks a segment as retransmitted.
    pub fn resent(&mut self, i: usize, now: Nanos) -> Option<Seg> {
        let seg = self.segs.get_mut(i)?;
        if !seg.mark.contains(Mark::RETRANS) {
            self.retrans += u32::from(!seg.mark.contains(Mark::SACKED));
        }
        if !seg.mark.contains(Mark::SACKED) {
            seg.mark |= Mark::RETRANS;
        }
        seg.mark |= Mark::EVER;
        seg.sent = now;
        Some(*seg)
    }

    /// Checks the counters by recounting.
    #[cfg(test)]
    pub fn check(&self) {
        let count = |m: Mark| self.segs.iter().filter(|s| s.mark.contains(m)).count() as u32;
        assert_eq!(self.sacked, count(Mark::SACKED));
        assert_eq!(self.lost, count(Mark::LOST));
        assert_eq!(self.retrans, count(Mark::RETRANS));
        assert!(self.sacked + self.lost <= self.len() + self.retrans);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scoreboard(segments: u64) -> Scoreboard {
        let mut b = Scoreboard::default();
        for n in 0..segments {
            b.push(n * 100, 100, 0);
        }
        b
    }

    fn sack(b: &mut Scoreboard, from: u64, to: u64) -> u32 {
        let mut news = 0;
        let block = Block {
            start: from * 100,
            end: to * 100,
        };
        b.sack(block, |_, _| news += 1);
        b.check();
        news
    }

    fn lost(b: &Scoreboard) -> Vec<u64> {
        (0..b.len() as usize)
            .filter_map(|i| b.get(i))
            .filter(|s| s.mark.contains(Mark::LOST))
            .map(|s| s.seq / 100)
            .collect()
    }

    /// RFC 6675 §3, IsLost(): more than two segments' worth of bytes above.
    #[test]
    fn bytes_above_tell_a_loss() {
        let mut b = scoreboard(10);
        sack(&mut b, 1, 3);
        b.judge(3, 100);
        assert_eq!(lost(&b), [0u64; 0], "two segments are not more than two");
        assert_eq!(b.in_flight(), 8);
        sack(&mut b, 3, 4);
        b.judge(3, 100);
        assert_eq!(lost(&b), [0]);
        // SetPipe: ten, minus three SACKed, minus one lost.
        assert_eq!(b.in_flight(), 6);
        b.resent(0, 5);
        assert_eq!(b.in_flight(), 7, "its retransmission is in the pipe");
        b.check();
    }

    /// RFC 6675 §3, IsLost(): three separate runs above, of whatever size.
    #[test]
    fn runs_above_tell_a_loss() {
        let mut b = scoreboard(10);
        for n in [1, 3] {
            sack(&mut b, n, n + 1);
            // The segments are a tenth of the MSS: their bytes show no loss yet.
            b.judge(3, 1000);
        }
        assert_eq!(lost(&b), [0u64; 0]);
        sack(&mut b, 5, 6);
        b.judge(3, 1000);
        assert_eq!(lost(&b), [0]);
        sack(&mut b, 7, 8);
        b.judge(3, 1000);
        assert_eq!(lost(&b), [0, 2]);
        // A retransmission is not judged by what was sent before it.
        b.resent(0, 5);
        sack(&mut b, 9, 10);
        b.judge(3, 1000);
        assert_eq!(lost(&b), [0, 2, 4]);
        assert_eq!(b.next_lost(), Some(2));
        b.check();
    }

    #[test]
    fn what_is_acknowledged_is_out_no_more() {
        let mut b = scoreboard(10);
        assert_eq!(sack(&mut b, 2, 6), 4);
        assert_eq!(sack(&mut b, 2, 7), 1, "only one of these segments is new");
        b.judge(3, 100);
        assert_eq!(lost(&b), [0, 1]);
        b.resent(0, 1);
        while b.pop_below(400).is_some() {
            b.check();
        }
        assert_eq!((b.len(), b.sacked(), b.lost(), b.retrans()), (6, 3, 0, 0));
        // A block that ends within a segment covers only the segments before it.
        let part = Block {
            start: 700,
            end: 850,
        };
        b.sack(part, |_, s| assert_eq!(s.seq, 700));
        assert_eq!(b.sacked(), 4);
        // It is lost again: the retransmission has left the pipe.
        b.mark_lost(4);
        b.resent(4, 2);
        assert_eq!((b.lost(), b.retrans(), b.in_flight()), (1, 1, 2));
        b.mark_lost(4);
        assert_eq!((b.lost(), b.retrans(), b.in_flight()), (1, 0, 1));
        b.check();
    }

    /// NextSeg() rule 3 looks only below the highest SACKed segment.
    #[test]
    fn what_may_be_lost_comes_last() {
        let mut b = scoreboard(6);
        sack(&mut b, 1, 2);
        sack(&mut b, 3, 4);
        assert_eq!(b.next_unsacked(0), Some(0));
        assert_eq!(b.next_unsacked(100), Some(2));
        assert_eq!(b.next_unsacked(300), None);
        assert_eq!(b.last_unsacked(), Some(5));
    }
}
