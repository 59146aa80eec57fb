//! Two directions of a link that share one medium.

use crate::Nanos;
use crate::link::{Link, Verdict};
use crate::queue::QueueDiscipline;

/// Whose turn it is on a medium that carries one packet at a time.
///
/// Each direction keeps its own queue, rate and delay. While both have something
/// to send they alternate, a packet each, as stations with equal chances of the
/// channel do on average; nothing collides and nobody waits to find it free. A
/// direction that waits alone sends on.
///
/// Queues catch up lazily, so both links must have seen the same time: call
/// [`advance`](Self::advance) before anything is asked of one of them, and
/// [`enqueue`](Self::enqueue) here instead of there. A link's own
/// [`next_wakeup`](Link::next_wakeup) may come before it has anything to deliver,
/// because the other direction went first.
///
/// Both need a rate; one without occupies the medium for no time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HalfDuplex {
    /// The direction that sent last.
    last: usize,
}

impl HalfDuplex {
    /// A free medium for two links that have sent nothing yet. When both begin to
    /// wait at the same time the first goes first.
    #[must_use]
    pub fn new<P, Q: QueueDiscipline<P>>(links: [&mut Link<P, Q>; 2]) -> Self {
        for link in links {
            link.take_turns();
        }
        Self { last: 1 }
    }

    /// Lets everything happen on the medium that happens until `now`.
    pub fn advance<P, Q: QueueDiscipline<P>>(
        &mut self,
        mut links: [&mut Link<P, Q>; 2],
        now: Nanos,
    ) {
        while let Some(way) = self.next(&links) {
            let free = links[way].free_at();
            if free > now {
                break;
            }
            links[way].launch_next(free);
            self.took(way, &mut links);
        }
        for link in links {
            link.advance(now);
        }
    }

    /// Offers a packet to one of the links.
    pub fn enqueue<P, Q: QueueDiscipline<P>>(
        &mut self,
        mut links: [&mut Link<P, Q>; 2],
        way: usize,
        packet: P,
        len: u32,
        now: Nanos,
    ) -> Verdict<P> {
        self.advance(links.each_mut().map(|link| &mut **link), now);
        let free = links[way].free_at();
        let verdict = links[way].enqueue(packet, len, now);
        if links[way].free_at() > free {
            self.took(way, &mut links);
        }
        verdict
    }

    /// Who sends next, if anybody waits.
    fn next<P, Q: QueueDiscipline<P>>(&self, links: &[&mut Link<P, Q>; 2]) -> Option<usize> {
        let turn = 1 - self.last;
        [turn, self.last]
            .into_iter()
            .find(|&way| links[way].is_waiting())
    }

    fn took<P, Q: QueueDiscipline<P>>(&mut self, way: usize, links: &mut [&mut Link<P, Q>; 2]) {
        let until = links[way].free_at();
        links[1 - way].occupy(until);
        self.last = way;
    }
}
