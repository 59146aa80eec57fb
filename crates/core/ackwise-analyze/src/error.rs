//! Why a capture file cannot be read.

use std::io;

/// The error of a capture file that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// An I/O error.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// The file is empty.
    #[error("it is empty")]
    Empty,
    /// The file is neither pcap nor pcapng.
    #[error("it begins with {0:02x?}: that is no capture file of the formats pcap or pcapng")]
    Unknown(Vec<u8>),
    /// A block is invalid.
    #[error("after {packets} packets, at byte {at} of the capture: {what}")]
    Damaged {
        /// The offset in the capture, after decompression.
        at: u64,
        /// Packets that were read before it.
        packets: u64,
        /// What is wrong there.
        what: String,
    },
    /// A gzip or zstd file cannot be decompressed.
    #[error("after {at} unpacked bytes, the compressed data are damaged: {what}")]
    Decompression {
        /// Bytes that were decompressed before the error.
        at: u64,
        /// What is wrong there.
        what: String,
    },
}

impl From<io::Error> for CaptureError {
    /// A decompressor can only return an I/O error, which may wrap the reason.
    fn from(error: io::Error) -> Self {
        error.downcast().unwrap_or_else(CaptureError::Io)
    }
}

impl CaptureError {
    /// How to fix it, if possible.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            CaptureError::Unknown(_) => Some("capture with `tcpdump -i IFACE -s 128 -w FILE tcp`"),
            CaptureError::Damaged { .. } => {
                Some("`editcap -r` of Wireshark writes the packets before it to another file")
            }
            CaptureError::Decompression { .. } => Some("copy the file again, or capture anew"),
            CaptureError::Empty => Some("capture while there are downloads"),
            CaptureError::Io(_) => None,
        }
    }
}
