//! What an ACK tells: the scoreboard is brought up to date, and RTT samples are taken.

use ackwise_queue::Nanos;

use super::Selective;
use crate::packet::{Block, Flags, Packet};
use crate::tcp::scoreboard::Mark;
use crate::tcp::tcb::Tcb;

/// What an ACK told.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct News {
    /// Segments that it newly covers, by number or by SACK.
    pub delivered: u32,
    /// It moved the cumulative number.
    pub advanced: bool,
    /// It newly covers segments by SACK.
    pub sacked: bool,
    /// It reports data that arrived twice (RFC 2883), and no more than were sent again.
    pub dsack: bool,
    /// It reports that the segment arrived twice that a probe of the tail repeated.
    pub dsack_of_probe: bool,
    /// It says nothing at all, as the answer to a segment that arrived before.
    pub repeats: bool,
    /// Data that were sent once were delivered.
    pub original: bool,
    /// When the oldest segment left that it newly acknowledges and that was sent once.
    oldest: Option<Nanos>,
    /// When the newest segment left that it newly acknowledges and that was sent once.
    newest: Option<Nanos>,
    /// When the oldest segment left that it newly SACKs and that was sent once.
    pub sacked_oldest: Option<Nanos>,
    /// When the newest segment left that it newly SACKs and that was sent once.
    sacked_newest: Option<Nanos>,
    /// The lowest segment that was SACKed or acknowledged late.
    low: Option<u64>,
}

impl Selective {
    /// Takes an ACK: what it acknowledges, its SACK blocks, its RTT sample.
    pub(super) fn take_news(&mut self, tcb: &mut Tcb, p: &Packet, now: Nanos) -> News {
        let before = self.scoreboard.high_sacked();
        if let Some(rate) = &mut self.rate {
            rate.prior_in_flight = u64::from(self.scoreboard.in_flight());
            rate.prior_lost = self.scoreboard.losses();
        }
        let duplicate = tcb.is_duplicate(p);
        let mut news = News {
            advanced: p.ack > tcb.una,
            ..News::default()
        };
        if is_dsack(p)
            && let Some(block) = p.sack.blocks().first()
        {
            self.note_dsack(tcb, *block, &mut news);
        }
        if news.advanced {
            self.note_cumulative(p, now, before, &mut news);
            tcb.take_ack(p);
        }
        self.note_sack(p, now, before, &mut news);
        news.repeats = !news.advanced && !news.sacked;
        news.repeats &= p.payload == 0 && p.window <= tcb.offered;
        tcb.stats.dup_acks += u64::from(duplicate);
        self.note_rtt(tcb, p, now, &news);
        // A segment that was delivered late but never sent again: the path reorders.
        if let Some(low) = news.low {
            let distance = before.saturating_sub(low);
            self.rack.reordered(distance, tcb.config.mss);
        }
        news
    }

    /// What the cumulative number covers leaves the scoreboard. `before` is the highest
    /// number that was SACKed before this ACK.
    fn note_cumulative(&mut self, p: &Packet, now: Nanos, before: u64, news: &mut News) {
        while let Some(seg) = self.scoreboard.pop_below(p.ack) {
            let fresh = !seg.mark.contains(Mark::SACKED);
            if let Some(rate) = &mut self.rate {
                if fresh {
                    rate.on_delivered(0, seg.sent, seg.end());
                }
                rate.pop();
            }
            if !fresh {
                continue;
            }
            self.rack.advance(&seg, now);
            news.delivered += 1;
            if seg.mark.contains(Mark::EVER) {
                continue;
            }
            news.original = true;
            news.oldest.get_or_insert(seg.sent);
            news.newest = Some(seg.sent);
            if seg.end() <= before {
                news.low.get_or_insert(seg.seq);
            }
        }
        self.scoreboard.trim(p.ack);
    }

    /// Counts data that arrived twice, as `tcp_check_dsack()` of Linux does: what the network
    /// doubled is no needless retransmission. `tcb.una` is the number before this ACK.
    fn note_dsack(&mut self, tcb: &Tcb, block: Block, news: &mut News) {
        let segments = block.end.saturating_sub(block.start).div_ceil(tcb.mss());
        let probe = self.probe.is_some_and(|probe| probe.end == block.end);
        news.dsack_of_probe = probe && segments == 1;
        self.dsacked += segments;
        news.dsack = self.dsacked <= tcb.stats.retransmits;
        let Some(undo) = self.undo.as_mut().filter(|_| news.dsack) else {
            return;
        };
        let resent = if block.end > tcb.una {
            self.scoreboard.resent_within(block)
        } else if block.end > undo.marker {
            segments
        } else {
            0
        };
        undo.resent = undo.resent.saturating_sub(resent as u32);
    }

    /// What the SACK blocks cover is marked.
    fn note_sack(&mut self, p: &Packet, now: Nanos, before: u64, news: &mut News) {
        for (i, block) in p.sack.blocks().iter().enumerate() {
            if i == 0 && is_dsack(p) {
                continue;
            }
            let Selective {
                scoreboard,
                rack,
                rate,
                ..
            } = self;
            scoreboard.sack(*block, |index, seg| {
                if let Some(rate) = rate {
                    rate.on_delivered(index, seg.sent, seg.end());
                }
                news.delivered += 1;
                news.sacked = true;
                rack.advance(seg, now);
                if !seg.mark.contains(Mark::EVER) {
                    news.original = true;
                    news.sacked_oldest.get_or_insert(seg.sent);
                    news.sacked_newest = Some(seg.sent);
                    if seg.end() <= before {
                        news.low = Some(news.low.map_or(seg.seq, |low| low.min(seg.seq)));
                    }
                }
            });
        }
    }

    /// One RTT sample an ACK: of the oldest segment that it newly acknowledges, else
    /// that it SACKs, else by timestamps (RFC 7323 §4.1, RFC 6298 §3).
    fn note_rtt(&mut self, tcb: &mut Tcb, p: &Packet, now: Nanos, news: &News) {
        if p.flags.contains(Flags::SYNTHETIC) {
            return;
        }
        if let Some(sent) = news.oldest.or(news.sacked_oldest) {
            tcb.sample(sent, now);
            tcb.rtt.reset_backoff();
        } else if news.advanced && tcb.config.timestamps && p.tsecr <= now {
            tcb.sample(p.tsecr, now);
            tcb.rtt.reset_backoff();
        }
        if let Some(sent) = news.newest.or(news.sacked_newest) {
            self.rack.min_rtt = self.rack.min_rtt.min((now - sent).max(1));
            if let Some(rate) = &mut self.rate {
                rate.rtt = Some(now - sent);
            }
            tcb.note_delay(now - sent, now);
        }
    }
}

/// Whether the first block reports data that arrived twice: it lies below the number, or
/// inside the second (RFC 2883 §4).
fn is_dsack(p: &Packet) -> bool {
    let within =
        |inner: &Block, outer: &Block| outer.start <= inner.start && inner.end <= outer.end;
    match p.sack.blocks() {
        [first, ..] if first.end <= p.ack => true,
        [first, second, ..] => within(first, second),
        _ => false,
    }
}
