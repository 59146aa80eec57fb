//! Where packets leave the kernel for a process and come back.
//!
//! What the datapath, the gateway and the tunnel have in common: a device that packets are
//! redirected to, a packet socket that sends them, the way a program hangs on an
//! interface, and a socket by which a running process is found and asked. All of it
//! is gone with the process, however that ends.

pub mod clock;
pub mod control;
mod error;
mod frame;
mod hook;
mod inlet;
mod interface;
mod outlet;
pub mod socket;

pub use error::Error;
pub use frame::find_ip;
pub use hook::{Attach, Attached, attach, lacks_tcx};
pub use inlet::{DOOR_QUEUE, Inlet, Role};
pub use interface::Interface;
pub use outlet::{BATCH, Outlet, Sent};
