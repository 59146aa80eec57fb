//! What the thread that moves packets shares with the owner of the tunnel.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::stats::Stats;

pub use ackwise_netdev::daemon::Ended;

/// The state that both sides see.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Tells the thread to end.
    pub stop: AtomicBool,
    /// Set when the thread has ended and nothing is left of the tunnel.
    pub ended: Mutex<Option<Ended>>,
    /// The last statistics that the thread published.
    pub stats: Mutex<Stats>,
    /// Makes the thread stand still. Only tests set it.
    pub freeze: AtomicBool,
}

/// Locks a mutex even if a thread panicked while it held it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
