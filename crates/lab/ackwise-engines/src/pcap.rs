//! Writes capture files.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::clock::now_ns;
use crate::error::LabError;

/// A pcap file with nanosecond timestamps and Ethernet frames.
#[derive(Debug)]
pub struct Pcap {
    file: BufWriter<File>,
    /// Offset from the monotonic clock to the time of day.
    offset_ns: u64,
    snap: usize,
}

/// Magic number of a pcap file with nanoseconds, in the byte order of the writer.
const MAGIC: u32 = 0xa1b2_3c4d;
const LINK_TYPE_ETHERNET: u32 = 1;

impl Pcap {
    /// Creates a file; frames are truncated to `snap` bytes.
    ///
    /// # Errors
    /// The file cannot be created or written.
    pub fn create(path: &Path, snap: usize) -> Result<Self, LabError> {
        let failed = || LabError::os(format!("cannot write {}", path.display()));
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path).map_err(failed())?);
        let mut header = Vec::with_capacity(24);
        header.extend(MAGIC.to_ne_bytes());
        header.extend(2_u16.to_ne_bytes());
        header.extend(4_u16.to_ne_bytes());
        header.extend([0; 8]);
        header.extend((snap as u32).to_ne_bytes());
        header.extend(LINK_TYPE_ETHERNET.to_ne_bytes());
        file.write_all(&header).map_err(failed())?;
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_nanos() as u64;
        Ok(Self {
            file,
            offset_ns: wall.wrapping_sub(now_ns()),
            snap,
        })
    }

    /// Adds a frame that was seen at `at_ns` of the monotonic clock.
    ///
    /// # Errors
    /// The disk is full or gone.
    pub fn write(&mut self, frame: &[u8], wire_len: usize, at_ns: u64) -> io::Result<()> {
        let time = at_ns.wrapping_add(self.offset_ns);
        let kept = frame.len().min(self.snap);
        let mut header = [0; 16];
        header[0..4].copy_from_slice(&((time / 1_000_000_000) as u32).to_ne_bytes());
        header[4..8].copy_from_slice(&((time % 1_000_000_000) as u32).to_ne_bytes());
        header[8..12].copy_from_slice(&(kept as u32).to_ne_bytes());
        header[12..16].copy_from_slice(&(wire_len as u32).to_ne_bytes());
        self.file.write_all(&header)?;
        self.file.write_all(&frame[..kept])
    }

    /// Flushes the file.
    ///
    /// # Errors
    /// The disk is full or gone.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()
    }
}
