//! What can go wrong, where, and what mends it.

use std::io;

/// Why a gateway could not be made, or did not last.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process lacks rights.
    #[error(
        "not permitted to {what}: run as root, or with CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW and \
         CAP_PERFMON"
    )]
    Permission {
        /// What was refused.
        what: &'static str,
    },
    /// There is no such interface in this network namespace.
    #[error("no interface {0} in this network namespace: `ip link` lists those there are")]
    NoInterface(String),
    /// The link type is neither Ethernet nor bare IP.
    #[error(
        "{interface} has link type {arphrd}, which ackwise cannot read: it knows Ethernet (1) and \
         bare IP (tun 65534, ppp 512, and none)"
    )]
    LinkType {
        /// The interface.
        interface: String,
        /// `ARPHRD_*` of the kernel.
        arphrd: u16,
    },
    /// Another gateway has the interface.
    #[error(
        "{interface} has a gateway already, process {pid}: end it with `ackwise gateway down \
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
        "{0} has no gateway in this network namespace (`ackwise gateway status` lists those \
         there are)"
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
    #[error("{0} was deleted while its gateway was at work")]
    InterfaceGone(String),
    /// The gateway's own device was deleted by somebody.
    #[error(
        "the device {0}, by which packets come to the gateway, was deleted or taken down by \
         somebody else; packets take the ordinary way again"
    )]
    DoorGone(String),
    /// The kernel would not take the program.
    #[error("the program for {interface}: {why}")]
    Program {
        /// The interface.
        interface: String,
        /// What the kernel and the loader said.
        why: String,
    },
    /// A system call failed in a way that has no better name.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| ackwise_door::Error::system(what)(source).into()
    }
}

impl From<ackwise_door::Error> for Error {
    fn from(error: ackwise_door::Error) -> Error {
        use ackwise_door::Error as Door;
        match error {
            Door::Permission { what } => Error::Permission { what },
            Door::NoInterface(name) => Error::NoInterface(name),
            Door::LinkType { interface, arphrd } => Error::LinkType { interface, arphrd },
            Door::DeviceGone(name) => Error::DoorGone(name),
            Door::Program { interface, why } => Error::Program { interface, why },
            Door::System { what, source } => Error::System { what, source },
            other => Error::System {
                what: "opening the way in and out",
                source: io::Error::other(other),
            },
        }
    }
}
