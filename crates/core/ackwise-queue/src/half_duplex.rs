//! Two directions of a link that share one medium.

use crate::Nanos;
use crate::link::{Link, Verdict};
use crate::queue::QueueDiscipline;

/// Whose turn it is on a medium that carries one packet at a time.
///
/// Each direction keeps its own queue, rate and delay. While both have something to send
/// they alternate packet by packet, as stations with equal chances of the channel do on
/// average. There are no collisions, and no time is spent on sensing the channel. A
/// direction that waits alone sends without pause.
///
/// Queues catch up lazily, so both links must have advanced to the same time: call
/// [`advance`](Self::advance) before anything is asked of one of them, and
/// [`enqueue`](Self::enqueue) of this type instead of the link's. A link's own
/// [`next_wakeup`](Link::next_wakeup) may come before it has anything to deliver, because
/// the other direction went first.
///
/// Both links need a rate; one without occupies the medium for no time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HalfDuplex {
    /// The direction that sent last.
    last: usize,
}

impl HalfDuplex {
    /// Makes a free medium for two links that have sent nothing yet. If both begin to wait
    /// at the same time, the first link sends first.
    #[must_use]
    pub fn new<P, Q: QueueDiscipline<P>>(links: [&mut Link<P, Q>; 2]) -> Self {
        for link in links {
            link.take_turns();
        }
        Self { last: 1 }
    }

    /// Advances both links to `now`, in nanoseconds.
    pub fn advance<P, Q: QueueDiscipline<P>>(
        &mut self,
        mut links: [&mut Link<P, Q>; 2],
        now: Nanos,
    ) {
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
        let free = links[direction].free_at();
        let verdict = links[direction].enqueue(packet, len, now);
        if links[direction].free_at() > free {
            self.took(direction, &mut links);
        }
        verdict
    }

    /// The direction that sends next, if one waits.
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
