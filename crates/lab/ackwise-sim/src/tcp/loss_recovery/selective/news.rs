//! What an ACK tells: updates the scoreboard, and takes RTT samples.

use ackwise_queue::Nanos;

use super::Selective;
use crate::packet::{Block, Flags, Packet};
use crate::tcp::scoreboard::Mark;
use crate::tcp::tcb::Tcb;

/// What an ACK told. "Sent once" means never retransmitted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct News {
    /// Segments newly covered, by number or by SACK.
    pub delivered: u32,
    /// Whether the cumulative number advanced.
    pub advanced: bool,
    /// Whether segments are newly covered by SACK.
    pub sacked: bool,
    /// Whether it reports duplicate data (RFC 2883), no more than were retransmitted.
    pub dsack: bool,
    /// Whether the duplicate is the segment that a tail loss probe repeated.
    pub dsack_of_probe: bool,
    /// Whether it tells nothing new, like the answer to a segment that had already arrived.
    pub repeats: bool,
    /// Whether data sent once were delivered.
    pub original: bool,
    /// When the oldest newly acknowledged segment that was sent once left.
    oldest: Option<Nanos>,
    /// When the newest newly acknowledged segment that was sent once left.
    newest: Option<Nanos>,
    /// When the oldest newly SACKed segment that was sent once left.
    pub sacked_oldest: Option<Nanos>,
    /// When the newest newly SACKed segment that was sent once left.
    sacked_newest: Option<Nanos>,
    /// The lowest segment that was SACKed or acknowledged late.
    low: Option<u64>,
}

impl Selective {
    /// Processes an ACK: what it acknowledges, its SACK blocks, and its RTT sample.
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
        // A segment was delivered late but never retransmitted: the path reorders.
        if let Some(low) = news.low {
            let distance = before.saturating_sub(low);
            self.rack.reordered(distance, tcb.config.mss);
        }
        news
    }

    /// Removes what the cumulative number covers from the scoreboard. `before` is the highest
    /// number SACKed before this ACK.
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

    /// Counts duplicate data, as `tcp_check_dsack()` of Linux does: a duplicate made by the network
    /// is no unnecessary retransmission. `tcb.una` is the number before this ACK.
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

    /// Marks what the SACK blocks cover.
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

    /// Takes one RTT sample per ACK: from the oldest segment newly acknowledged, else
    /// from the oldest newly SACKed, else from timestamps (RFC 7323 §4.1, RFC 6298 §3).
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

/// Whether the first block reports duplicate data: it lies below the number, or
/// inside the second block (RFC 2883 §4).
fn is_dsack(p: &Packet) -> bool {
    let within =
        |inner: &Block, outer: &Block| outer.start <= inner.start && inner.end <= outer.end;
    match p.sack.blocks() {
        [first, ..] if first.end <= p.ack => true,
        [first, second, ..] => within(first, second),
        _ => false,
    }
}
