use std::fmt;
use std::io;
use std::net::IpAddr;

/// Text from the partner, made safe for a terminal: characters that do not print are escaped, and
/// it has at most [`PeerText::MAX_CHARS`] characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerText(String);

impl PeerText {
    /// The number of characters kept, before escaping.
    pub const MAX_CHARS: usize = 200;

    /// Escapes and truncates a text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut fit = String::new();
        for (number, letter) in text.chars().enumerate() {
            if number == Self::MAX_CHARS {
                fit.push('…');
                break;
            }
            match letter {
                '\'' | '"' => fit.push(letter),
                // Control characters, and those that change the direction of what follows.
                _ => fit.extend(letter.escape_debug()),
            }
        }
        Self(fit)
    }
}

impl fmt::Display for PeerText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a path could not be probed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused something.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// A capability is missing.
    #[error(
        "cannot open a raw socket: {0}\n  it needs CAP_NET_RAW: run it as root, or `setcap cap_net_raw+ep` the program"
    )]
    Rights(io::Error),
    /// The partner's name could not be resolved.
    #[error("{host}: {source}\n  check that the name is right, or give an address")]
    NoAddress {
        /// The host that was asked for.
        host: String,
        /// The cause.
        source: io::Error,
    },
    /// The partner does not answer.
    #[error(
        "{host}, port {port}: {source}\n  start the partner there: `ackwise probe --serve --port {port}`; a firewall in front of it must let TCP port {port} and {} in",
        port.saturating_add(1)
    )]
    NoPartner {
        /// The host that was asked for.
        host: String,
        /// The port of the control connection.
        port: u16,
        /// The cause.
        source: io::Error,
    },
    /// The partner is running another probe.
    #[error("the partner is busy with another probe, for {seconds} s at most; try again soon")]
    Busy {
        /// The latest time, in seconds, until that probe is over.
        seconds: u32,
    },
    /// The other program has ended.
    #[error("the partner closed the control connection before the probe was over")]
    Gone,
    /// The partner sent something that is not a valid message.
    #[error("the partner sent something that is not a message of this protocol: {0}")]
    Protocol(PeerText),
    /// The other program has another version of the protocol.
    #[error(
        "the partner speaks version {theirs} of the protocol, this program {ours}; install the same release at both ends"
    )]
    Version {
        /// The partner's version.
        theirs: u32,
        /// This program's version.
        ours: u32,
    },
    /// The partner could not continue.
    #[error("the partner failed: {0}")]
    Partner(PeerText),
    /// No flow of the probe could be established, although the control connection was.
    #[error(
        "no connection to {address}, port {port} could be made\n  a firewall must let TCP port {port} in, besides that of the control connection"
    )]
    NoFlow {
        /// The partner's address.
        address: IpAddr,
        /// The port of the flows.
        port: u16,
    },
}

impl Error {
    pub(crate) fn protocol(text: &str) -> Self {
        Self::Protocol(PeerText::new(text))
    }

    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Most probes take far less than they may.
    #[test]
    fn the_time_of_another_probe_is_a_bound() {
        let told = Error::Busy { seconds: 177 }.to_string();
        assert!(told.contains("for 177 s at most"), "{told}");
    }
}
