//! What can go wrong, where, and what mends it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a tunnel could not be made, or did not last.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A device, an interface or a program.
    #[error(transparent)]
    Netdev(#[from] ackwise_netdev::Error),
    /// Another tunnel has the name.
    #[error(
        "there is a tunnel {device} already, process {pid}: end it with `ackwise tunnel down \
         {device}` first, or give this one another 'device'"
    )]
    Held {
        /// Its device.
        device: String,
        /// Who has it; 0 if it does not say.
        pid: u32,
    },
    /// No such tunnel.
    #[error(
        "there is no tunnel {0} in this network namespace (`ackwise tunnel status` lists those \
         there are)"
    )]
    NotThere(String),
    /// A tunnel gave no answer, or none that can be understood.
    #[error("the tunnel {device} does not answer: {why}")]
    Control {
        /// Its device.
        device: String,
        /// What happened.
        why: String,
    },
    /// The key file cannot be used.
    #[error("{}: {why}; `ackwise tunnel keygen` makes one", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A peer has the key of this side.
    #[error("peer '{0}' has the public key of this side: give it that of the other side")]
    OwnKey(String),
    /// A host name has no address that can be used.
    #[error("peer '{peer}': {endpoint} is not found: {why}")]
    Endpoint {
        /// The peer.
        peer: String,
        /// As configured.
        endpoint: String,
        /// What happened.
        why: String,
    },
    /// Datagrams cannot come in.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// There is no such user.
    #[error("there is no user '{0}': make it, or leave 'user' out")]
    NoUser(String),
    /// The interface was deleted.
    #[error("{0} was deleted while the tunnel took ACKs there")]
    InterfaceGone(String),
    /// The tunnel's own device was deleted, or taken down.
    #[error(
        "the tunnel's device {0} was deleted or taken down by somebody else; packets take the \
         ordinary way again"
    )]
    DeviceGone(String),
}

impl Error {
    /// For `map_err`.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| ackwise_netdev::Error::system(what)(source).into()
    }
}
