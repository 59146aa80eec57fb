//! State that the thread that moves packets shares with the owner of the tunnel.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ackwise_netdev::daemon::Lifecycle;

use crate::stats::Stats;

/// The shared state.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Tells the thread to end, and tells whether it has.
    pub lifecycle: Arc<Lifecycle>,
    /// The last statistics that the thread published.
    pub stats: Mutex<Stats>,
}

/// Locks a mutex even if a thread panicked while it held it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
