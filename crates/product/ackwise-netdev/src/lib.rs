//! Where packets leave the kernel for a process and come back.
//!
//! What the datapath, the gateway and the tunnel have in common: a device that packets are
//! redirected to, a packet socket that sends them, the way a program hangs on an
//! interface, and a socket by which a running process is found and asked. All of it
//! is gone with the process, however that ends.

pub mod clock;
pub mod control;
mod error;
mod hook;
mod ifreq;
mod interface;
mod ip_offset;
mod packet_socket;
pub mod socket;
mod tun;

pub use error::Error;
pub use hook::{Attach, Attached, attach, lacks_tcx};
pub use interface::{Interface, exists};
pub use ip_offset::ip_offset;
pub use packet_socket::{BATCH, PacketSocket, SendStats};
pub use tun::{Role, TX_QUEUE_LEN, TunDevice};
