//! Notices that someone else has removed the filters of a daemon.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::daemon::{Ended, Lifecycle};
use crate::exists;

/// The interval between checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Remembers when the filters on an interface were last looked at, and whether they were gone.
#[derive(Debug)]
pub struct FilterWatch {
    /// The index of the interface.
    index: u32,
    checked: Mutex<Instant>,
    gone: AtomicBool,
}

impl FilterWatch {
    /// A watch over filters that have just been added to the interface with this index.
    #[must_use]
    pub fn new(index: u32) -> Self {
        Self {
            index,
            checked: Mutex::new(Instant::now()),
            gone: AtomicBool::new(false),
        }
    }

    /// Returns whether the filters are gone, although the interface is there. This calls
    /// `are_attached` if the last check is two seconds ago. It may wait for the kernel: no thread
    /// that moves packets should call it.
    pub fn check(&self, are_attached: impl FnOnce() -> bool) -> bool {
        let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_gone() && checked.elapsed() >= CHECK_INTERVAL {
            let gone = !are_attached() && exists(self.index);
            self.gone.store(gone, Ordering::SeqCst);
            *checked = Instant::now();
        }
        self.is_gone()
    }

    /// Returns why a daemon that has one worker has ended, if it has: with its worker, or because its
    /// filters are gone.
    pub fn ended(
        &self,
        lifecycle: &Lifecycle,
        are_attached: impl FnOnce() -> bool,
    ) -> Option<Ended> {
        let ended = lifecycle.ended();
        if ended.is_some_and(|why| why != Ended::Requested) {
            return ended;
        }
        // Once it is told to end, it detaches by itself.
        let gone = match ended.is_some() || lifecycle.should_stop() {
            true => self.is_gone(),
            false => self.check(are_attached),
        };
        if gone { Some(Ended::FilterGone) } else { ended }
    }

    /// Returns whether the last check found the filters gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }
}
