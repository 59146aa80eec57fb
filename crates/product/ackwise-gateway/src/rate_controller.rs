//! Measures what the link behind the gateway carries, and sets the rate by it.

use ackwise_autorate::Delay;
use ackwise_bandwidth::{Bounds, Estimator, Observation};
use ackwise_netdev::{AttachMode, Interface};
use ackwise_queue::Nanos;

use crate::Error;
use crate::core::Core;
use crate::stats::Measured;

/// The interval between samples.
const SAMPLE_INTERVAL: Nanos = 25_000_000;

/// The estimator of the rate, and the program that times what passes.
#[derive(Debug)]
pub(crate) struct RateController {
    estimator: Estimator,
    /// `None` once the gateway ends.
    delay: Option<Delay>,
    next: Nanos,
    /// The core's drop count at the last sample.
    drops: u64,
    /// Whether it was logged that nothing can be measured.
    has_warned: bool,
}

impl RateController {
    /// Starts to time what passes the interface, where a packet costs `overhead` additional bytes.
    /// The rate starts at the maximum, which shapes nothing. `mode` is how the gateway's own
    /// program is attached.
    pub fn install(
        interface: &Interface,
        mode: AttachMode,
        bounds: Bounds,
        overhead: u32,
    ) -> Result<Self, Error> {
        let overhead = i32::try_from(overhead).unwrap_or(i32::MAX);
        Ok(Self {
            estimator: Estimator::new(bounds, bounds.max_bps),
            delay: Some(Delay::behind_tc(interface, overhead, mode)?),
            next: 0,
            drops: 0,
            has_warned: false,
        })
    }

    /// Takes a sample if it is due, and sets the core's rate. Returns when to call this next.
    pub fn sample(&mut self, core: &mut Core, now: Nanos) -> Nanos {
        let Some(delay) = self.delay.as_mut().filter(|_| now >= self.next) else {
            return self.next;
        };
        self.next = now + SAMPLE_INTERVAL;
        let drops = core.drops();
        let has_dropped = drops != std::mem::replace(&mut self.drops, drops);
        let observation = delay.sample().and_then(|sample| {
            Ok(Observation {
                at_ns: now,
                sent: delay.sent()?,
                backlog_bytes: core.waiting().bytes,
                has_dropped,
                sample,
            })
        });
        match observation {
            Ok(observation) => core.set_rate(self.estimator.observe(&observation)),
            Err(error) if !self.has_warned => {
                tracing::warn!("measuring the rate: {error}; it stays as it is meanwhile");
                self.has_warned = true;
            }
            Err(_) => {}
        }
        self.next
    }

    /// Detaches the programs. The estimate stays.
    pub fn detach(&mut self) {
        self.delay = None;
    }

    /// Returns the current estimate.
    pub fn now(&self) -> Measured {
        Measured {
            rate_bps: self.estimator.rate_bps(),
            link_bps: self.estimator.capacity_bps(),
            state: self.estimator.state().into(),
        }
    }
}
