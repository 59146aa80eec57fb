use std::io;
use std::path::PathBuf;

/// Why a request to the operating system failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process lacks a capability.
    #[error(
        "not permitted to {what}: run as root, or with CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW and \
         CAP_PERFMON"
    )]
    Permission {
        /// The operation that was refused.
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
    /// Packets sent through the interface do not leave.
    #[error(
        "{0} is an ifb device, which drops what ackwise sends by it: name the interface whose packets \
         are redirected to it"
    )]
    Ifb(String),
    /// The interface has a qdisc for ingress alone, in the place of clsact.
    #[error(
        "{0} has the qdisc ingress, in the place of clsact, and so no hook for what leaves: replace it \
         by clsact, which takes the same filters for ingress, or attach by tcx (Linux 6.6 and newer)"
    )]
    IngressQdisc(String),
    /// The kernel has no tcx, and only tcx was asked for.
    #[error(
        "this kernel has no tcx (Linux 6.6 and newer): attach with clsact, or leave the choice to \
         ackwise (auto)"
    )]
    NoTcx {
        /// The kernel's error.
        why: String,
    },
    /// A device of this process was deleted by somebody else.
    #[error("the device {0} is gone")]
    DeviceGone(String),
    /// The kernel refused a program.
    #[error("the program for {interface}: {why}")]
    Program {
        /// The interface.
        interface: String,
        /// The error of the kernel and the loader.
        why: String,
    },
    /// A part of the embedded object is not as this loader was built for.
    #[error("the embedded BPF object has no usable {0}: rebuild ackwise")]
    Object(String),
    /// A map of a program cannot be read or written.
    #[error("the BPF map {map}: {why}")]
    Map {
        /// The name of the map.
        map: String,
        /// The error of the kernel and the loader.
        why: String,
    },
    /// The registry of daemons, or a file of it, cannot be used.
    #[error("{}: {source}{}", path.display(), cure(source))]
    Registry {
        /// The directory or the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// There is no such user.
    #[error("there is no user '{0}': create it, or name another one")]
    NoUser(String),
    /// Only root can become another user.
    #[error(
        "this process runs as user {me} and cannot become '{user}': start it as root, or as '{user}'"
    )]
    NotRoot {
        /// The uid of the process.
        me: u32,
        /// The user that it was to become.
        user: String,
    },
    /// Privileges could not be dropped.
    #[error("cannot {what}: {why}; the daemon does not run with rights that it does not need")]
    Privileges {
        /// The operation.
        what: &'static str,
        /// The system's error.
        why: String,
    },
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation, as in [`Error::system`].
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
}

impl Error {
    /// The error for privileges that could not be dropped.
    pub(crate) fn privileges(what: &'static str, why: &dyn std::fmt::Display) -> Error {
        Error::Privileges {
            what,
            why: why.to_string(),
        }
    }

    /// Returns a function for `map_err` that adds the operation: "open a packet socket", which
    /// follows "cannot" or "not permitted to".
    pub fn system(what: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => Error::Permission { what },
            _ => Error::System { what, source },
        }
    }
}

/// What mends an error of the registry's directory. An error that ackwise words itself says so.
fn cure(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => "; run as root",
        Some(libc::EROFS) => "; mount a file system there that can be written",
        Some(libc::ENOSPC) => "; make room there",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cure_for_the_registry_depends_on_the_error() {
        let said = |source| {
            let path = PathBuf::from("/run/ackwise");
            Error::Registry { path, source }.to_string()
        };
        let said_of = |number| said(io::Error::from_raw_os_error(number));
        assert!(said_of(libc::EACCES).ends_with("; run as root"));
        let read_only = said_of(libc::EROFS);
        assert!(
            read_only.contains("can be written") && !read_only.contains("root"),
            "{read_only}"
        );
        // Another directory would hide the daemons that run.
        for number in [libc::EACCES, libc::EROFS, libc::ENOSPC, libc::EIO] {
            assert!(!said_of(number).contains("ACKWISE_RUN_DIR"));
        }
        assert_eq!(
            said(io::Error::other("it is odd")),
            "/run/ackwise: it is odd"
        );
    }

    #[test]
    fn what_was_tried_is_said_in_a_sentence() {
        let message = |number| {
            let error = io::Error::from_raw_os_error(number);
            Error::system("open a netlink socket")(error).to_string()
        };
        let full = message(libc::EMFILE);
        assert!(full.starts_with("cannot open a netlink socket: "), "{full}");
        for number in [libc::EPERM, libc::EACCES] {
            let refused = message(number);
            assert!(
                refused.starts_with("not permitted to open a netlink socket: run as root"),
                "{refused}"
            );
        }
    }
}
