//! A link with middleboxes.

use std::collections::VecDeque;

use crate::Nanos;
use crate::changes::LinkChanges;
use crate::discipline::{Discipline, QueueConfig};
use crate::link::{Departure, Link, LinkConfig, Verdict};
use crate::middlebox::{
    Mux, MuxConfig, MuxStats, PoliceConfig, PoliceStats, Policer, ReconstructConfig,
    ReconstructStats, Reconstructor, ShapeConfig, ShapeStats, Shaper,
};
use crate::packet::Packet;
use crate::queue::DropCause;

/// One direction of a link, with its middleboxes.
#[derive(Debug, Clone, PartialEq)]
pub struct ChannelConfig<F> {
    /// The wire.
    pub link: LinkConfig,
    /// The queue before the wire; the limit in `link` is ignored.
    pub queue: QueueConfig,
    /// The bytes of each offered length that are the link's header rather than the IP packet.
    /// Middleboxes charge for the IP packet only.
    pub header: u32,
    /// Drops packets that exceed a rate, before everything else.
    pub police: Option<PoliceConfig<F>>,
    /// Delays packets that exceed a rate, after the policer.
    pub shape: Option<ShapeConfig<F>>,
    /// Bundles packets, after the shaper and before the queue.
    pub mux: Option<MuxConfig<F>>,
    /// Fills the gaps between stretch ACKs, after the wire.
    pub reconstruct: Option<ReconstructConfig>,
}

impl<F> ChannelConfig<F> {
    /// A link with its queue and no middlebox.
    #[must_use]
    pub fn plain(link: LinkConfig, queue: QueueConfig) -> Self {
        Self {
            link,
            queue,
            header: 0,
            police: None,
            shape: None,
            mux: None,
            reconstruct: None,
        }
    }
}

/// What the middleboxes did; `None` for one that is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MiddleboxStats {
    /// The policer.
    pub police: Option<PoliceStats>,
    /// The shaper.
    pub shape: Option<ShapeStats>,
    /// The multiplexer.
    pub mux: Option<MuxStats>,
    /// The reconstructor.
    pub reconstruct: Option<ReconstructStats>,
}

#[derive(Debug)]
struct Middleboxes<P: Packet> {
    police: Option<Policer<P::Flow>>,
    shape: Option<Shaper<P>>,
    mux: Option<Mux<P>>,
    reconstruct: Option<Reconstructor<P>>,
    /// Packets that a middlebox accepted and the link's queue then rejected.
    rejected: VecDeque<(P, DropCause)>,
    now: Nanos,
}

/// Policer → shaper → multiplexer → queue → wire → reconstructor. Every middlebox is optional. It
/// has the methods of a [`Link`], and without middleboxes it behaves like one.
///
/// If the queue refuses a packet that a middlebox releases, the packet comes back as
/// [`Departure::Dropped`].
#[derive(Debug)]
pub struct Channel<P: Packet> {
    link: Link<P, Discipline<P>>,
    middleboxes: Option<Box<Middleboxes<P>>>,
}

impl<P: Packet> Channel<P> {
    /// Creates an empty channel.
    #[must_use]
    pub fn new(config: ChannelConfig<P::Flow>) -> Self {
        let plain = config.police.is_none()
            && config.shape.is_none()
            && config.mux.is_none()
            && config.reconstruct.is_none();
        let link = Link::with_queue(config.link, Discipline::new(&config.queue));
        let middleboxes = (!plain).then(|| {
            Box::new(Middleboxes {
                police: config
                    .police
                    .map(|police| Policer::new(police, config.header)),
                shape: config.shape.map(|shape| Shaper::new(shape, config.header)),
                mux: config.mux.map(|mux| Mux::new(mux, config.header)),
                reconstruct: config.reconstruct.map(Reconstructor::new),
                rejected: VecDeque::new(),
                now: 0,
            })
        });
        Self { link, middleboxes }
    }

    /// The link itself, for its statistics and its queue.
    #[must_use]
    pub fn link(&self) -> &Link<P, Discipline<P>> {
        &self.link
    }

    /// The link itself, for [`HalfDuplex`](crate::HalfDuplex). Only a channel without
    /// middleboxes can share a medium.
    pub fn link_mut(&mut self) -> &mut Link<P, Discipline<P>> {
        debug_assert!(self.middleboxes.is_none());
        &mut self.link
    }

    /// Makes the link's rate and delay change over time, by schedules that begin at `origin`. Call
    /// it before the first packet.
    pub fn vary(&mut self, changes: &LinkChanges, origin: Nanos) {
        self.link.vary(changes, origin);
    }

    /// Advances the queue to `now`, so that its length and statistics are up to date.
    pub fn advance(&mut self, now: Nanos) {
        self.link.advance(now);
    }

    /// What the middleboxes did.
    #[must_use]
    pub fn middleboxes(&self) -> MiddleboxStats {
        self.middleboxes
            .as_ref()
            .map_or_else(MiddleboxStats::default, |middleboxes| MiddleboxStats {
                police: middleboxes.police.as_ref().map(Policer::stats),
                shape: middleboxes.shape.as_ref().map(Shaper::stats),
                mux: middleboxes.mux.as_ref().map(Mux::stats),
                reconstruct: middleboxes.reconstruct.as_ref().map(Reconstructor::stats),
            })
    }

    /// Packets that wait or are on the wire, including those in middleboxes.
    #[must_use]
    pub fn backlog(&self) -> usize {
        self.link.backlog()
            + self
                .middleboxes
                .as_ref()
                .map_or(0, |middleboxes| middleboxes.packets())
    }

    /// Offers a packet of `len` bytes at `now`.
    #[inline]
    pub fn enqueue(&mut self, packet: P, len: u32, now: Nanos) -> Verdict<P> {
        match &mut self.middleboxes {
            None => self.link.enqueue(packet, len, now),
            Some(middleboxes) => middleboxes.enqueue(&mut self.link, packet, len, now),
        }
    }

    /// The time of the next call of [`pop_due`](Self::pop_due), or `None` if the channel is empty.
    #[inline]
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Nanos> {
        match &self.middleboxes {
            None => self.link.next_wakeup(),
            Some(middleboxes) => middleboxes.next_wakeup(&self.link),
        }
    }

    /// The next packet that has arrived by `now`, in order of arrival.
    #[inline]
    pub fn pop_due(&mut self, now: Nanos) -> Option<Departure<P>> {
        match &mut self.middleboxes {
            None => self.link.pop_due(now),
            Some(middleboxes) => middleboxes.pop_due(&mut self.link, now),
        }
    }
}

fn earliest(times: [Option<Nanos>; 2]) -> Option<Nanos> {
    times.into_iter().flatten().min()
}

impl<P: Packet> Middleboxes<P> {
    fn packets(&self) -> usize {
        self.rejected.len()
            + self.shape.as_ref().map_or(0, Shaper::packets)
            + self.mux.as_ref().map_or(0, Mux::packets)
            + self.reconstruct.as_ref().map_or(0, Reconstructor::packets)
    }

    /// The time at which a middlebox before the queue next releases a packet.
    fn upstream_due(&self) -> Option<Nanos> {
        earliest([
            self.shape.as_ref().and_then(Shaper::due),
            self.mux.as_ref().and_then(Mux::due),
        ])
    }

    fn downstream_due(&self) -> Option<Nanos> {
        self.reconstruct.as_ref().and_then(Reconstructor::due)
    }

    fn enqueue(
        &mut self,
        link: &mut Link<P, Discipline<P>>,
        packet: P,
        len: u32,
        now: Nanos,
    ) -> Verdict<P> {
        self.now = self.now.max(now);
        let now = self.now;
        // First release the packets that were due before this one arrived.
        while let Some(due) = self.upstream_due().filter(|due| *due < now) {
            self.release_upstream(link, due);
        }
        let police = self.police.as_mut();
        if police.is_some_and(|police| !police.passes(&packet, len, now)) {
            return Verdict::Rejected(packet, DropCause::Policed);
        }
        let verdict = self.shape(link, packet, len, now);
        // A packet that has its tokens, or arrives exactly at a tick, does not wait.
        while let Some(due) = self.upstream_due().filter(|due| *due <= now) {
            self.release_upstream(link, due);
        }
        verdict
    }

    fn shape(
        &mut self,
        link: &mut Link<P, Discipline<P>>,
        packet: P,
        len: u32,
        now: Nanos,
    ) -> Verdict<P> {
        match self.shape.as_mut().filter(|shape| shape.matches(&packet)) {
            Some(shape) => match shape.offer(packet, len, now) {
                Ok(()) => Verdict::Queued,
                Err(packet) => Verdict::Rejected(packet, DropCause::Policed),
            },
            None => self.bundle(link, packet, len, now),
        }
    }

    fn bundle(
        &mut self,
        link: &mut Link<P, Discipline<P>>,
        packet: P,
        len: u32,
        now: Nanos,
    ) -> Verdict<P> {
        match self.mux.as_mut().filter(|mux| mux.matches(&packet)) {
            Some(mux) => {
                mux.offer(packet, len, now);
                Verdict::Queued
            }
            None => link.enqueue(packet, len, now),
        }
    }

    /// Releases the packet that is due at `due`, the earliest of all middleboxes.
    fn release_upstream(&mut self, link: &mut Link<P, Discipline<P>>, due: Nanos) {
        let shaped = self.shape.as_mut().and_then(|shape| shape.pop(due));
        let verdict = if let Some((packet, len)) = shaped {
            self.bundle(link, packet, len, due)
        } else if let Some((packet, len)) = self.mux.as_mut().and_then(|mux| mux.pop(due)) {
            link.enqueue(packet, len, due)
        } else {
            return;
        };
        if let Verdict::Rejected(packet, cause) = verdict {
            self.rejected.push_back((packet, cause));
        }
    }

    fn next_wakeup(&self, link: &Link<P, Discipline<P>>) -> Option<Nanos> {
        if !self.rejected.is_empty() {
            return Some(self.now);
        }
        let inside = earliest([self.upstream_due(), self.downstream_due()]);
        earliest([inside, link.next_wakeup()])
    }

    fn pop_due(&mut self, link: &mut Link<P, Discipline<P>>, now: Nanos) -> Option<Departure<P>> {
        self.now = self.now.max(now);
        let now = self.now;
        loop {
            if let Some((packet, cause)) = self.rejected.pop_front() {
                return Some(Departure::Dropped { packet, cause });
            }
            let next = self.next_wakeup(link).filter(|next| *next <= now)?;
            if let Some(due) = self.upstream_due().filter(|due| *due <= next) {
                self.release_upstream(link, due);
                continue;
            }
            let far = self.reconstruct.as_mut().and_then(|far| far.pop(next));
            if let Some(ack) = far {
                return Some(Departure::Delivered {
                    packet: ack.packet,
                    copies: ack.copies,
                    due_ns: ack.due,
                });
            }
            match link.pop_due(next) {
                None => {}
                Some(Departure::Delivered {
                    packet,
                    copies,
                    due_ns,
                }) => {
                    let passed = match &mut self.reconstruct {
                        None => Some(packet),
                        Some(far) => far.arrive(packet, copies, due_ns),
                    };
                    if let Some(packet) = passed {
                        return Some(Departure::Delivered {
                            packet,
                            copies,
                            due_ns,
                        });
                    }
                }
                dropped => return dropped,
            }
        }
    }
}
