//! Ends runs when the user asks for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use crate::error::LabError;

static CANCEL: OnceLock<Arc<AtomicBool>> = OnceLock::new();

extern "C" fn note(_signal: libc::c_int) {
    // Only an atomic load and an atomic store: safe in a signal handler.
    if let Some(cancel) = CANCEL.get() {
        cancel.store(true, Ordering::Relaxed);
    }
}

/// Makes the first SIGINT or SIGTERM set the returned flag, for
/// [`RunOptions::cancel`](super::RunOptions::cancel). The second one ends the process.
///
/// # Errors
/// The system refuses.
pub fn cancel_on_signals() -> Result<Arc<AtomicBool>, LabError> {
    let cancel = Arc::clone(CANCEL.get_or_init(Arc::default));
    let action = SigAction::new(
        SigHandler::Handler(note),
        SaFlags::SA_RESTART | SaFlags::SA_RESETHAND,
        SigSet::empty(),
    );
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        // SAFETY: the handler is async-signal-safe.
        unsafe { sigaction(signal, &action) }
            .map_err(LabError::errno(format!("cannot handle {signal}")))?;
    }
    Ok(cancel)
}
