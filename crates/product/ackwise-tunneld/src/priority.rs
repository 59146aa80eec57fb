//! The priority of the thread that moves packets.

/// The nice value of the thread. If it waits for a CPU, ACKs wait, too, and bypass the tunnel
/// after a period.
const NICENESS: libc::c_int = -10;

/// Raises the priority of this thread and of those that it starts later, if that is permitted.
pub(crate) fn raise() {
    // SAFETY: no pointers. In Linux 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) };
}
