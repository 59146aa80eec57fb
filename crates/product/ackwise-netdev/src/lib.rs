//! The only interface to the operating system for the datapath, the gateway, the tunnel, the probe
//! and the laboratory.
//!
//! - Packets: [`TunDevice`] takes them out of the kernel, [`PacketSocket`] sends them, and an
//!   [`Attachment`] is a BPF program at an [`Interface`]. Any other [`packet_socket`] and
//!   [`raw_socket`] is opened here as well.
//! - Questions to the kernel: [`netlink`], [`clsact`], [`ifreq`], [`surroundings`] and [`kernel`];
//!   replacing and restoring the root queue discipline: [`qdisc`].
//! - [`sockopt`]: socket options and filters.
//! - Daemons: [`control`] is the socket through which a running one is asked and stopped,
//!   [`registry`] the directory in which those of all network namespaces are found, [`daemon`]
//!   their life from start to stop, and [`privileges`] what they drop before the first packet.
//!
//! The kernel removes devices, sockets and tcx links with the process, however that ends.

mod attach;
pub mod bpf;
pub mod clock;
pub mod clsact;
pub mod control;
pub mod daemon;
mod error;
mod filter_watch;
pub mod helper;
pub mod ifreq;
mod interface;
pub mod janitor;
pub mod kernel;
pub mod netlink;
mod packet_sender;
pub mod packet_socket;
pub mod privileges;
pub mod qdisc;
pub mod raw_socket;
pub mod registry;
mod rights;
pub mod sockopt;
pub mod surroundings;
pub mod system_calls;
mod tun;
mod user;

pub use attach::{
    AttachMode, AttachOptions, Attachment, OLDEST_LINUX, Order, Unfit, missing_helper,
    remove_stale_filters, unfit, with_causes,
};
pub use error::Error;
pub use filter_watch::FilterWatch;
pub use interface::{Direction, Interface, exists};
pub use packet_sender::{BATCH, PacketSocket, SendStats, enlarge_send_buffer};
pub use tun::{Role, TX_QUEUE_LEN, TunDevice, create_tun};
