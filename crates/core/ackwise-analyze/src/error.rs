//! Why a capture file cannot be read.

use std::io;

/// A capture file that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The system says no.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// There is nothing in it.
    #[error("it is empty")]
    Empty,
    /// Neither pcap nor pcapng.
    #[error("it begins with {0:02x?}: that is no capture file of the formats pcap or pcapng")]
    Unknown(Vec<u8>),
    /// A block that makes no sense.
    #[error("after {packets} packets, at byte {at} of the capture: {what}")]
    Damaged {
        /// Where, in bytes of the capture once it is unpacked.
        at: u64,
        /// Packets that were read before.
        packets: u64,
        /// What is wrong there.
        what: String,
    },
    /// A gzip or zstd file that cannot be unpacked.
    #[error("after {at} unpacked bytes, the compressed data are damaged: {what}")]
    Packed {
        /// Bytes that were unpacked before.
        at: u64,
        /// What is wrong there.
        what: String,
    },
}

impl From<io::Error> for CaptureError {
    /// A decompressor can only return an I/O error: what is wrong may be inside.
    fn from(error: io::Error) -> Self {
        error.downcast().unwrap_or_else(CaptureError::Io)
    }
}

impl CaptureError {
    /// How to mend it, if something can be done.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            CaptureError::Unknown(_) => Some("capture with `tcpdump -i IFACE -s 128 -w FILE tcp`"),
            CaptureError::Damaged { .. } => {
                Some("`editcap -r` of Wireshark writes the packets before it to another file")
            }
            CaptureError::Packed { .. } => Some("copy the file again, or capture anew"),
            CaptureError::Empty => Some("capture while there are downloads"),
            CaptureError::Io(_) => None,
        }
    }
}
