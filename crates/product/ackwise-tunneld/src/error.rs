//! The errors of a tunnel.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a tunnel could not be started, or has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A device, an interface or a BPF program failed.
    #[error(transparent)]
    Netdev(#[from] ackwise_netdev::Error),
    /// Another tunnel has the device.
    #[error(
        "process {pid} already runs the tunnel {device}: stop it with `ackwise tunnel down \
         {device}` first, or give this one another 'device'"
    )]
    Held {
        /// The device of the tunnel.
        device: String,
        /// The id of its process; 0 if it does not answer.
        pid: u32,
    },
    /// There is no such tunnel.
    #[error(
        "there is no tunnel {0} in this network namespace (`ackwise tunnel status` lists \
         them)"
    )]
    NotThere(String),
    /// A tunnel did not answer, or its answer was invalid.
    #[error("the tunnel {device} does not answer: {why}")]
    Control {
        /// The device of the tunnel.
        device: String,
        /// What happened.
        why: String,
    },
    /// The key file cannot be used.
    #[error("{}: {why}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The key file can be read or written by others than its owner.
    #[error(
        "{path}: users other than its owner can access this private key: `chmod 600 {path}`, and \
         make a new key if someone may have read it",
        path = .0.display()
    )]
    KeyPermissions(PathBuf),
    /// A peer has the key of this end.
    #[error("peer '{0}' has the public key of this end: give it the other end's key")]
    OwnKey(String),
    /// The endpoint of a peer could not be resolved.
    #[error("peer '{peer}': cannot resolve {endpoint}: {why}")]
    Endpoint {
        /// The peer.
        peer: String,
        /// The endpoint as configured.
        endpoint: String,
        /// What happened.
        why: String,
    },
    /// A UDP socket could not be opened.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The interface was deleted.
    #[error(
        "{0} was deleted, or moved to another network namespace, while the tunnel took ACKs there"
    )]
    InterfaceGone(String),
    /// The tunnel's own device was deleted or taken down.
    #[error(
        "the tunnel's device {0} was deleted or taken down by someone else; packets take their \
         normal path again"
    )]
    DeviceGone(String),
    /// Someone else removed the tunnel's filter from clsact.
    #[error(
        "the filter that gives the ACKs of {0} to the tunnel was removed by someone else (`tc qdisc \
         del dev {0} clsact`, or `tc filter del`); ACKs take their normal path again"
    )]
    FilterGone(String),
}

impl Error {
    /// Returns a function for `map_err`.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| ackwise_netdev::Error::system(what)(source).into()
    }
}
