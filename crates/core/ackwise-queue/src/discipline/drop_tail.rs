//! Drop-tail: first in, first out.

use std::collections::VecDeque;

use super::{FromConfig, QueueConfig};
use crate::Nanos;
use crate::queue::{DropCause, Evicted, QueueDiscipline, QueueLimit, Queued};

/// First in, first out; a packet for which there is no room is dropped.
#[derive(Debug, Clone)]
pub struct DropTail<P> {
    limit: QueueLimit,
    waiting: VecDeque<Queued<P>>,
    bytes: u64,
}

impl<P> DropTail<P> {
    /// Creates an empty queue.
    #[must_use]
    pub fn new(limit: QueueLimit) -> Self {
        Self {
            limit,
            waiting: VecDeque::new(),
            bytes: 0,
        }
    }
}

impl<P> FromConfig for DropTail<P> {
    fn from_config(config: &QueueConfig) -> Option<Self> {
        Some(Self::new(config.limit))
    }
}

impl<P> QueueDiscipline<P> for DropTail<P> {
    fn enqueue(
        &mut self,
        queued: Queued<P>,
        _evicted: &mut VecDeque<Evicted<P>>,
    ) -> Result<(), Evicted<P>> {
        if !self
            .limit
            .has_room(self.waiting.len(), self.bytes, queued.len)
        {
            return Err(Evicted {
                queued,
                cause: DropCause::QueueFull,
            });
        }
        self.bytes += u64::from(queued.len);
        self.waiting.push_back(queued);
        Ok(())
    }

    #[inline]
    fn pass(
        &mut self,
        queued: Queued<P>,
        _now: Nanos,
        _evicted: &mut VecDeque<Evicted<P>>,
    ) -> Result<Option<Queued<P>>, Evicted<P>> {
        if self.limit.has_room(0, 0, queued.len) {
            return Ok(Some(queued));
        }
        Err(Evicted {
            queued,
            cause: DropCause::QueueFull,
        })
    }

    fn dequeue(&mut self, _now: Nanos, _evicted: &mut VecDeque<Evicted<P>>) -> Option<Queued<P>> {
        let queued = self.waiting.pop_front()?;
        self.bytes -= u64::from(queued.len);
        Some(queued)
    }

    fn packets(&self) -> usize {
        self.waiting.len()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
