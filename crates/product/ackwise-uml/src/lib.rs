//! Boots a Linux kernel as a child process, in virtual time and without root.
//!
//! The kernel is User Mode Linux. With `time-travel=inf-cpu` its clock stops while anything
//! computes, and jumps to the next timer when everything waits. What happens inside depends on the
//! kernel, the first program and the seed, and on nothing of the host. See
//! `docs/decisions/0014-virtual-time.md`.

mod error;
mod kernel;
mod machine;
mod owner;
mod watchdog;

pub use error::Error;
pub use kernel::{Kernel, KernelChoice, Release, VARIABLE};
pub use machine::{Ended, INIT, Machine, link_init, remove_leftovers};
pub use owner::{Naming, is_left_over, is_of_ackwise};
pub use watchdog::Watchdog;
