//! Errors, with what caused them and how to fix them.

use std::io;

/// Why a gateway could not be started, or had to end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of a device, an interface or a program.
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
        /// The process that has it; 0 if it is not known.
        pid: u32,
    },
    /// The interface has no gateway.
    #[error(
        "{0} has no gateway in this network namespace (`ackwise gateway status` lists the gateways)"
    )]
    NotThere(String),
    /// A gateway did not answer, or its answer could not be parsed.
    #[error("the gateway of {interface} does not answer: {why}")]
    Control {
        /// The interface.
        interface: String,
        /// What happened.
        why: String,
    },
    /// The interface was deleted, or left the network namespace.
    #[error(
        "{0} was deleted, or moved to another network namespace, while its gateway was running"
    )]
    InterfaceGone(String),
    /// The gateway's own device was deleted or taken down.
    #[error(
        "the device {0}, by which packets come to the gateway, was deleted or taken down by \
         someone else; packets take their normal path again"
    )]
    DeviceGone(String),
    /// Someone else removed the gateway's filter from clsact.
    #[error(
        "the filter that sends the packets of {0} to the gateway was removed by someone else (`tc \
         qdisc del dev {0} clsact`, or `tc filter del`); packets take their normal path again"
    )]
    FilterGone(String),
}

impl Error {
    /// Converts an I/O error; for `map_err`.
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
