//! State that the thread that moves packets shares with the owner of the tunnel.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ackwise_netdev::daemon::{Ended, Lifecycle};

use crate::hook::Hook;
use crate::stats::Stats;

/// The shared state.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Tells the thread to end, and tells whether it has.
    pub lifecycle: Arc<Lifecycle>,
    /// The last statistics that the thread published.
    pub stats: Mutex<Stats>,
    /// The program at the interface. `None` if ACKs are routed to the device.
    pub hook: Option<Arc<Hook>>,
}

impl Shared {
    /// Returns why the tunnel has ended, if it has.
    pub fn ended(&self) -> Option<Ended> {
        match &self.hook {
            Some(hook) => hook.ended(&self.lifecycle),
            None => self.lifecycle.ended(),
        }
    }
}

/// Locks a mutex even if a thread panicked while it held it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
