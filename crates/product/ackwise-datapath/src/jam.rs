//! For tests: somebody else has the flows' locks, again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const LET_GO: Duration = Duration::from_micros(200);

/// Takes all locks, keeps and drops them, until this is dropped.
#[derive(Debug)]
pub struct Jam {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Jam {
    /// `once` has them for a moment, and says whether it can go on.
    pub(crate) fn start(once: impl Fn() -> bool + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) && once() {
                std::thread::sleep(LET_GO);
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Jam {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
