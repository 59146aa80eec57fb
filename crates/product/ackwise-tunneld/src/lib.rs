//! The ACK tunnel on live packets.
//!
//! ACKs that leave through an interface, or are routed to the tunnel's device, travel in
//! bundles over UDP to the other end, which puts them back as they were. What they are
//! made of is in `ackwise-tunnel`, which does no I/O; here is what moves them:
//!
//! ```text
//! stack, forwarding ─► egress hook ─► TUN or TAP ─► Tunnel ─► UDP ─► … ─► UDP ─► Tunnel
//!                          └─► straight on: no ACK, nobody behind,               │
//!                              no peer that answers, no process         device ◄─┘
//!                                                                 routing, forwarding
//! ```
//!
//! One thread does it all; it has no rights left when it looks at what comes from the
//! network. However the process ends, ACKs take the ordinary path again: the hook is a
//! link that goes with it, the devices go with their descriptors.
//!
//! ```no_run
//! use ackwise_tunneld::{Attach, Config, Daemon};
//!
//! let tunnel = Daemon::start(Config::load("/etc/ackwise/tunnel.toml")?, Attach::Auto)?;
//! std::thread::sleep(std::time::Duration::from_secs(60));
//! for peer in tunnel.stop()?.peers {
//!     println!("{}: {:?} bytes for each ACK", peer.name, peer.bytes_per_ack);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod checksum;
pub mod control;
mod daemon;
mod entrance;
mod error;
mod exit;
mod hook;
mod inject;
mod mapped;
mod peer;
mod privileges;
mod ring;
mod stats;
mod udp;
mod waits;
mod worker;

pub use crate::daemon::{Daemon, Ended, Prepared};
pub use crate::error::Error;
pub use crate::privileges::drop_privileges;
pub use crate::stats::{Amount, Arrivals, Failures, PeerStats, Restored, Stats};
pub use ackwise_config::tunnel::Tunnel as Config;
pub use ackwise_netdev::Attach;
