//! Two directions of a link that share one medium.

use crate::Nanos;
use crate::link::{Link, Verdict};
use crate::queue::QueueDiscipline;
use crate::wifi::{Wifi, WifiConfig, WifiStats};

/// A medium that two directions share; it decides whose turn it is.
///
/// With [`new`](Self::new), each direction keeps its own queue, rate and delay. While both have
/// something to send, they alternate packet by packet, as stations with equal access do on average.
/// There are no collisions, and sensing the channel takes no time. A direction that waits alone
/// sends without pause. [`wifi`](Self::wifi) models collisions and channel access.
///
/// Queues catch up lazily, so both links must have advanced to the same time: call
/// [`advance`](Self::advance) before querying either link, and [`enqueue`](Self::enqueue) of this
/// type instead of the link's. A link's own [`next_wakeup`](Link::next_wakeup) may come before it
/// has anything to deliver, because the other direction went first.
///
/// Both links need a rate; a link without one occupies the medium for no time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HalfDuplex {
    /// The direction that sent last.
    last: usize,
    /// The contention for the medium, if it is IEEE 802.11.
    wifi: Option<Box<Wifi>>,
}

impl HalfDuplex {
    /// Creates a free medium for two links that have sent nothing yet. If both begin to wait at the
    /// same time, the first link sends first.
    #[must_use]
    pub fn new<P, Q: QueueDiscipline<P>>(links: [&mut Link<P, Q>; 2]) -> Self {
        for link in links {
            link.set_half_duplex();
        }
        Self {
            last: 1,
            wifi: None,
        }
    }

    /// Creates an IEEE 802.11 medium, for which the two stations contend, for two links that have
    /// sent nothing yet. The links' own rates are ignored.
    #[must_use]
    pub fn wifi<P, Q: QueueDiscipline<P>>(links: [&mut Link<P, Q>; 2], config: WifiConfig) -> Self {
        Self {
            wifi: Some(Box::new(Wifi::new(config))),
            ..Self::new(links)
        }
    }

    /// The statistics of an IEEE 802.11 medium; `None` for any other.
    #[must_use]
    pub fn wifi_stats(&self) -> Option<WifiStats> {
        self.wifi.as_ref().map(|wifi| wifi.stats())
    }

    /// Advances both links to `now`, in nanoseconds.
    pub fn advance<P, Q: QueueDiscipline<P>>(
        &mut self,
        mut links: [&mut Link<P, Q>; 2],
        now: Nanos,
    ) {
        if let Some(wifi) = &mut self.wifi {
            wifi.advance(&mut links, now);
            for link in links {
                link.advance(now);
            }
            return;
        }
        while let Some(direction) = self.next(&links) {
            let free = links[direction].free_at();
            if free > now {
                break;
            }
            links[direction].launch_next(free);
            self.took(direction, &mut links);
        }
        for link in links {
            link.advance(now);
        }
    }

    /// Offers a packet of `len` bytes to the link of `direction`, 0 or 1.
    pub fn enqueue<P, Q: QueueDiscipline<P>>(
        &mut self,
        mut links: [&mut Link<P, Q>; 2],
        direction: usize,
        packet: P,
        len: u32,
        now: Nanos,
    ) -> Verdict<P> {
        self.advance(links.each_mut().map(|link| &mut **link), now);
        if let Some(wifi) = &mut self.wifi {
            let waited = links[direction].is_waiting();
            let verdict = links[direction].offer(packet, len, now);
            if !waited {
                wifi.ready(direction, now);
            }
            wifi.advance(&mut links, now);
            return verdict;
        }
        let free = links[direction].free_at();
        let verdict = links[direction].enqueue(packet, len, now);
        if links[direction].free_at() > free {
            self.took(direction, &mut links);
        }
        verdict
    }

    /// The direction that sends next, if either waits.
    fn next<P, Q: QueueDiscipline<P>>(&self, links: &[&mut Link<P, Q>; 2]) -> Option<usize> {
        let turn = 1 - self.last;
        [turn, self.last]
            .into_iter()
            .find(|&direction| links[direction].is_waiting())
    }

    fn took<P, Q: QueueDiscipline<P>>(
        &mut self,
        direction: usize,
        links: &mut [&mut Link<P, Q>; 2],
    ) {
        let until = links[direction].free_at();
        links[1 - direction].occupy(until);
        self.last = direction;
    }
}
