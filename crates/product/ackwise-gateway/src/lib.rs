//! The gateway: it owns the slow direction of a link.
//!
//! What leaves through an interface is shaped to a rate, waits in a queue of `ackwise-queue` (flow
//! queueing with CoDel, RED or drop-tail, with marks, ACK filters and a share or precedence for
//! ACKs), and then leaves. The fast direction stays in the kernel. The path of a packet:
//!
//! ```text
//! stack, forwarding ─► egress hook ─► TUN or TAP ─► Core ─► packet socket ─► egress hook ─► device
//!                          └─► straight on: not IP, no gateway, no sign of life
//! ```
//!
//! [`Core`] is sans-IO; one thread moves packets between it and the devices. However the process
//! ends, packets take the ordinary path again: the hook is a link that the kernel removes with the
//! process, and the device is removed with its descriptor.
//!
//! ```no_run
//! use ackwise_gateway::{AttachMode, Config, Gateway};
//!
//! let text = "interface = \"wan0\"\nrate = \"1 Mbit/s\"";
//! let gateway = Gateway::start(Config::parse("example", text)?, AttachMode::Auto)?;
//! std::thread::sleep(std::time::Duration::from_secs(60));
//! println!("{} ACKs were redundant", gateway.stop()?.filtered.packets);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[doc(hidden)]
pub mod bench;
mod config;
pub mod control;
mod core;
mod echo;
mod error;
mod forwarder;
mod frame;
mod gateway;
mod observer;
mod rate_controller;
mod redirect;
mod shared;
mod stats;
#[cfg(test)]
mod testing;

pub use crate::config::{Config, describe};
pub use crate::core::Core;
pub use crate::echo::Acc;
pub use crate::error::Error;
pub use crate::frame::{Flow, Frame, FrameBuf};
pub use crate::gateway::{Gateway, Prepared};
pub use crate::stats::{Amount, Cause, Dropped, Measured, Passed, Stats, Waiting};
pub use ackwise_autorate::State;
pub use ackwise_netdev::AttachMode;
pub use ackwise_netdev::daemon::Ended;
