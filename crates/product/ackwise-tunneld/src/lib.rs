//! The ACK tunnel on live packets.
//!
//! ACKs that leave through an interface, or are routed to the tunnel's device, travel in
//! bundles over UDP to the other end, which restores them unchanged. The protocol is in
//! `ackwise-tunnel`, which does no I/O. This crate moves the packets:
//!
//! ```text
//! stack, forwarding ─► egress hook ─► TUN or TAP ─► Tunnel ─► UDP ─► … ─► UDP ─► Tunnel
//!                          └─► passes: no ACK, no peer for it,                   │
//!                              no peer that answers, no process         device ◄─┘
//!                                                                 routing, forwarding
//! ```
//!
//! One thread moves all packets. It has no privileges when it reads from the network. However the
//! process ends, ACKs take the ordinary path again: the link that attaches the BPF program ends
//! with the process, and so do the devices.
//!
//! ```no_run
//! use ackwise_tunneld::{AttachMode, Config, Daemon};
//!
//! let tunnel = Daemon::start(Config::load("/etc/ackwise/tunnel.toml")?, AttachMode::Auto)?;
//! std::thread::sleep(std::time::Duration::from_secs(60));
//! for peer in tunnel.stop()?.peers {
//!     println!("{}: {:?} bytes for each ACK", peer.name, peer.bytes_per_ack);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch_injector;
mod bypass;
pub mod control;
mod daemon;
mod error;
mod handshake_budget;
mod hook;
mod map_memory;
mod peer;
mod poller;
mod priority;
mod redirect;
mod resolver;
mod ring;
mod setup;
mod shared;
mod stats;
mod tun_injector;
mod udp;
mod worker;

pub use crate::daemon::{Daemon, Prepared};
pub use crate::error::Error;
pub use crate::stats::{Amount, Delivery, Failures, PeerStats, Restored, Stats};
pub use ackwise_config::tunnel::Tunnel as Config;
pub use ackwise_netdev::AttachMode;
pub use ackwise_netdev::daemon::Ended;
