//! State that the owner of a gateway, its control thread and its worker share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ackwise_netdev::FilterWatch;
use ackwise_netdev::daemon::{Ended, Lifecycle};

use crate::Error;
use crate::config::{Config, describe};
use crate::echo::Echo;
use crate::redirect::{Counters, Redirect};
use crate::stats::{Amount, Passed, Stats};

/// State that the owner, the control thread and the worker share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub config: Config,
    pub device: String,
    pub started: Instant,
    pub redirect: Mutex<Redirect>,
    pub filter: FilterWatch,
    pub echo: Mutex<Option<Echo>>,
    pub lifecycle: Arc<Lifecycle>,
    /// The counters that the worker published last.
    pub stats: Mutex<Stats>,
}

/// Locks a mutex. A poisoned lock is used anyway, since a panic can only leave inconsistent
/// counters.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Returns why the gateway has ended, if it has.
    pub fn ended(&self) -> Option<Ended> {
        self.filter
            .ended(&self.lifecycle, || lock(&self.redirect).is_attached())
    }

    /// Returns the counters of the gateway.
    ///
    /// # Errors
    /// If the counters of a program cannot be read.
    pub fn stats(&self) -> Result<Stats, Error> {
        let Counters {
            taken,
            taken_bytes,
            returned: _,
            other,
            neighbour,
            unattended,
        } = lock(&self.redirect).counters()?;
        let mode = lock(&self.redirect).mode();
        let acc = lock(&self.echo).as_ref().map(Echo::counters).transpose()?;
        let stats = lock(&self.stats).clone();
        Ok(Stats {
            interface: self.config.interface.clone(),
            pid: std::process::id(),
            rate_bps: self.config.rate_bps,
            overhead: self.config.overhead,
            discipline: describe(&self.config.queue),
            attach: mode,
            device: self.device.clone(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            taken: Amount {
                packets: taken,
                bytes: taken_bytes,
            },
            acc,
            passed: Passed {
                other,
                neighbour,
                unattended,
            },
            ..stats
        })
    }
}
