//! What can go wrong, where, and what mends it.

use std::io;

/// Why a gateway could not be made, or did not last.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A device, an interface or a program.
    #[error(transparent)]
    Netdev(ackwise_netdev::Error),
    /// Another gateway has the interface.
    #[error(
        "{interface} already has a gateway, process {pid}: stop it with `ackwise gateway down \
         {interface}` first"
    )]
    Held {
        /// The interface.
        interface: String,
        /// Who has it; 0 if it does not say.
        pid: u32,
    },
    /// No gateway there.
    #[error(
        "{0} has no gateway in this network namespace (`ackwise gateway status` lists the gateways)"
    )]
    NotThere(String),
    /// A gateway gave no answer, or none that can be understood.
    #[error("the gateway of {interface} does not answer: {why}")]
    Control {
        /// The interface.
        interface: String,
        /// What happened.
        why: String,
    },
    /// The interface was deleted.
    #[error("{0} was deleted while its gateway was running")]
    InterfaceGone(String),
    /// The gateway's own device was deleted by somebody.
    #[error(
        "the device {0}, by which packets come to the gateway, was deleted or taken down by \
         someone else; packets take their normal path again"
    )]
    DeviceGone(String),
}

impl Error {
    /// For `map_err`.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| ackwise_netdev::Error::system(what)(source).into()
    }
}

impl From<ackwise_netdev::Error> for Error {
    fn from(error: ackwise_netdev::Error) -> Error {
        match error {
            ackwise_netdev::Error::DeviceGone(name) => Error::DeviceGone(name),
            other => Error::Netdev(other),
        }
    }
}
