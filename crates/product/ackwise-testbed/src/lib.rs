//! Environments for tests: declared networks of namespaces, a kernel in virtual time, and the
//! command under test.
//!
//! A test declares its network as a [`Topology`], and gets a [`Netns`] for each node. Namespaces
//! have no names: they are removed with the process, however it ends.
//!
//! ```no_run
//! use ackwise_testbed::{Topology, host, link, router};
//!
//! const TOPOLOGY: Topology = Topology {
//!     nodes: &[host("sender"), router("gateway"), host("receiver")],
//!     links: &[
//!         link("sender.lan0", "gateway.lan1"),
//!         link("gateway.wan0", "receiver.wan1"),
//!     ],
//! };
//! let [sender, gateway, receiver] = TOPOLOGY.build();
//! ```
//!
//! Assertions must hold on a busy machine. So a test either asserts what no schedule can change, or
//! it runs [`in_virtual_time`], where computing takes no time and every delay is exact;
//! [`here_and_in_virtual_time`] does both.

mod netns;
pub mod program;
mod refused;
mod topology;
mod virtual_time;

pub use ackwise_uml::{Kernel, Release};
pub use netns::{Netns, ip, packet_socket, run_command, set_up};
pub use refused::refuse;
pub use topology::{Link, Node, Topology, host, link, router};
pub use virtual_time::{
    here_and_in_virtual_time, in_virtual_time, in_virtual_time_on, this_program_in_virtual_time,
    time_is_virtual,
};

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A wait longer than this counts as a hang.
const TIMEOUT: Duration = Duration::from_secs(30);

static TEST_LOCK: Mutex<()> = Mutex::new(());

fn is_root() -> bool {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Waits until no other test of this program runs. Fails without root.
pub fn alone() -> MutexGuard<'static, ()> {
    assert!(
        is_root(),
        "this test makes network namespaces and loads BPF programs: run it as root"
    );
    TEST_LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until `poll` finds something, however slow the machine is.
///
/// # Panics
/// If nothing is found for half a minute.
pub fn until<T>(what: &str, poll: impl FnMut() -> Option<T>) -> T {
    until_within(TIMEOUT, what, poll)
}

/// Like [`until`], for what may take longer.
///
/// # Panics
/// If nothing is found for this long.
pub fn until_within<T>(timeout: Duration, what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + timeout;
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(Instant::now() < end, "waited {timeout:?} for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
