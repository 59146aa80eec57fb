use std::io;

/// Why a way in or out of the kernel could not be made.
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
    /// A device of the process was deleted by somebody.
    #[error("the device {0} is gone")]
    DeviceGone(String),
    /// The kernel would not take a program.
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
    pub fn system(what: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => Error::Permission { what },
            _ => Error::System { what, source },
        }
    }
}
