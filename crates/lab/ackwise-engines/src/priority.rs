//! Real-time priority of threads.

use std::io;

/// Gives a thread (0 for the calling one) a scheduling policy and a priority. It makes the system
/// call itself, because musl's function always fails and its structure has other fields.
///
/// # Errors
/// There is no such thread, or it may not have that priority.
pub(crate) fn schedule(
    tid: libc::pid_t,
    policy: libc::c_int,
    priority: libc::c_int,
) -> io::Result<()> {
    // The kernel's `struct sched_param` is one int. SAFETY: the priority lives across the call.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            tid,
            policy,
            &raw const priority,
        )
    };
    match answer {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gets_what_the_kernel_then_says() {
        for policy in [libc::SCHED_BATCH, libc::SCHED_OTHER] {
            schedule(0, policy, 0).unwrap();
            // SAFETY: it takes no pointer.
            let scheduler = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
            assert_eq!(scheduler, libc::c_long::from(policy));
        }
        assert_eq!(
            schedule(0, libc::SCHED_FIFO, 1000).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }
}
