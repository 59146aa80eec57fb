//! Capture files: pcap and pcapng, plain or compressed by gzip or zstd, from any reader.

use std::io::{self, Cursor, Read};

use flate2::read::MultiGzDecoder;
use pcap_parser::pcapng::Block;
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{LegacyPcapReader, PcapBlockOwned, PcapError, PcapNGReader};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use crate::link::LinkType;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// With any last half byte.
const ZSTD_SKIPPABLE: u32 = 0x184d_2a50;
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// The first buffer; it grows with the largest packet.
const BUFFER: usize = 256 << 10;
/// No packet is larger than that: longer blocks are taken for damage.
const MAX_BLOCK: usize = 64 << 20;
const NSEC_PER_SEC: u64 = 1_000_000_000;

/// A packet as it was captured.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// When, in nanoseconds since 1970.
    pub at_ns: u64,
    /// The interface's number in the file, from 0.
    pub interface: u32,
    /// What its first byte belongs to.
    pub link: LinkType,
    /// Bytes it had on the wire.
    pub wire_len: u32,
    /// Those of them that were kept.
    pub bytes: &'a [u8],
}

/// A capture file that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The system says no.
    #[error("{0}")]
    Io(#[from] io::Error),
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
            CaptureError::Empty => Some("capture while there are downloads"),
            CaptureError::Io(_) => None,
        }
    }
}

/// How the reading of a file ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Packets that were read.
    pub packets: u64,
    /// Where the file ends within a packet, if it does: a capture that was interrupted.
    pub cut_at: Option<u64>,
}

/// Calls `each` with every packet of a capture, in the file's order.
///
/// # Errors
/// [`CaptureError`]: `each` has seen the packets before it.
pub fn read(
    source: impl Read + Send,
    each: &mut dyn FnMut(&Packet<'_>),
) -> Result<End, CaptureError> {
    let mut source = unpacked(source)?;
    let mut first = [0; 4];
    let n = fill(&mut source, &mut first)?;
    if n == 0 {
        return Err(CaptureError::Empty);
    }
    let known = first[..n].to_vec();
    let failed = Failure::default();
    let whole = Filling {
        inner: Cursor::new(known.clone()).chain(source),
        failed: failed.clone(),
    };
    let opened: Result<Box<dyn PcapReaderIterator + '_>, _> = if first == PCAPNG {
        PcapNGReader::new(BUFFER, whole).map(|r| Box::new(r) as _)
    } else {
        LegacyPcapReader::new(BUFFER, whole).map(|r| Box::new(r) as _)
    };
    let mut reader = match opened {
        Ok(reader) => reader,
        Err(_) => {
            return Err(failed
                .take()
                .map_or(CaptureError::Unknown(known), Into::into));
        }
    };
    let mut state = State::default();
    read_blocks(&mut *reader, &mut state, each).map_err(|stop| match stop {
        Stop::Unreadable => failed.take().map_or_else(
            || state.damaged(reader.consumed(), "it cannot be read"),
            Into::into,
        ),
        Stop::Damaged(what) => state.damaged(reader.consumed(), &what),
    })
}

enum Stop {
    Unreadable,
    Damaged(String),
}

fn read_blocks(
    reader: &mut dyn PcapReaderIterator,
    state: &mut State,
    each: &mut dyn FnMut(&Packet<'_>),
) -> Result<End, Stop> {
    let mut capacity = BUFFER;
    loop {
        let more = match reader.next() {
            Ok((size, block)) => {
                state.block(&block, each).map_err(Stop::Damaged)?;
                reader.consume(size);
                continue;
            }
            Err(PcapError::Eof) => return Ok(state.end(None)),
            Err(PcapError::UnexpectedEof) => {
                // A reader that fails looks like one that ends.
                let at = reader.consumed() as u64;
                return Ok(state.end(Some(at)));
            }
            Err(PcapError::Incomplete(_)) => false,
            Err(PcapError::BufferTooSmall) => true,
            Err(PcapError::NomError(..) | PcapError::OwnedNomError(..)) => {
                return Err(Stop::Damaged("a block that makes no sense".into()));
            }
            Err(PcapError::HeaderNotRecognized | PcapError::ReadError) => {
                return Err(Stop::Unreadable);
            }
        };
        // A block may be long, or only say so: the buffer grows once it is full.
        if more && reader.data().len() >= capacity {
            if capacity >= MAX_BLOCK {
                let what = format!("a block of more than {} MiB", MAX_BLOCK >> 20);
                return Err(Stop::Damaged(what));
            }
            capacity *= 2;
            reader.grow(capacity);
        }
        if reader.refill().is_err() {
            return Err(Stop::Unreadable);
        }
    }
}

#[derive(Clone, Copy)]
struct Interface {
    link: LinkType,
    /// Units of its time in a second.
    per_second: u64,
    offset_s: i64,
    snap_len: u32,
}

#[derive(Default)]
struct State {
    interfaces: Vec<Interface>,
    /// The first interface of this section: a file may be several captures, one after another.
    section: usize,
    packets: u64,
    last_ns: u64,
}

impl State {
    fn damaged(&self, at: usize, what: &str) -> CaptureError {
        CaptureError::Damaged {
            at: at as u64,
            packets: self.packets,
            what: what.to_owned(),
        }
    }

    fn end(&self, cut_at: Option<u64>) -> End {
        End {
            packets: self.packets,
            cut_at,
        }
    }

    fn block(
        &mut self,
        block: &PcapBlockOwned<'_>,
        each: &mut dyn FnMut(&Packet<'_>),
    ) -> Result<(), String> {
        match block {
            PcapBlockOwned::LegacyHeader(h) => {
                self.interfaces.push(Interface {
                    link: LinkType(h.network.0.cast_unsigned() & 0xffff),
                    per_second: if h.is_nanosecond_precision() {
                        NSEC_PER_SEC
                    } else {
                        1_000_000
                    },
                    offset_s: 0,
                    snap_len: h.snaplen,
                });
                Ok(())
            }
            PcapBlockOwned::Legacy(b) => {
                let interface = self.interface(0)?;
                let units = u64::from(b.ts_sec) * interface.per_second + u64::from(b.ts_usec);
                self.packet(0, Some(units), b.origlen, captured(b.data, b.caplen)?, each)
            }
            PcapBlockOwned::NG(block) => self.ng_block(block, each),
        }
    }

    fn ng_block(
        &mut self,
        block: &Block<'_>,
        each: &mut dyn FnMut(&Packet<'_>),
    ) -> Result<(), String> {
        match block {
            Block::SectionHeader(_) => {
                self.section = self.interfaces.len();
                Ok(())
            }
            Block::InterfaceDescription(i) => {
                self.interfaces.push(Interface {
                    link: LinkType(i.linktype.0.cast_unsigned() & 0xffff),
                    per_second: i.ts_resolution().filter(|r| *r > 0).ok_or_else(|| {
                        format!("a clock of 2^-{} or 10^-{0} s", i.if_tsresol & 0x7f)
                    })?,
                    offset_s: i.if_tsoffset,
                    snap_len: i.snaplen,
                });
                Ok(())
            }
            Block::EnhancedPacket(p) => {
                let units = u64::from(p.ts_high) << 32 | u64::from(p.ts_low);
                let bytes = captured(p.data, p.caplen)?;
                self.packet(p.if_id, Some(units), p.origlen, bytes, each)
            }
            Block::SimplePacket(p) => {
                let kept = match self.interface(0)?.snap_len {
                    0 => p.origlen,
                    limit => p.origlen.min(limit),
                };
                self.packet(0, None, p.origlen, captured(p.data, kept)?, each)
            }
            _ => Ok(()),
        }
    }

    fn interface(&self, number: u32) -> Result<Interface, String> {
        self.interfaces
            .get(self.section + number as usize)
            .copied()
            .ok_or_else(|| format!("a packet of interface {number}, which is not described"))
    }

    fn packet(
        &mut self,
        number: u32,
        units: Option<u64>,
        wire_len: u32,
        bytes: &[u8],
        each: &mut dyn FnMut(&Packet<'_>),
    ) -> Result<(), String> {
        let interface = self.interface(number)?;
        // A packet without a time came with the one before.
        let at_ns = units.map_or(self.last_ns, |units| to_ns(units, &interface));
        self.last_ns = at_ns;
        self.packets += 1;
        each(&Packet {
            at_ns,
            interface: u32::try_from(self.section)
                .unwrap_or(u32::MAX)
                .saturating_add(number),
            link: interface.link,
            wire_len: wire_len.max(u32::try_from(bytes.len()).unwrap_or(u32::MAX)),
            bytes,
        });
        Ok(())
    }
}

fn to_ns(units: u64, interface: &Interface) -> u64 {
    let ns = u128::from(units) * u128::from(NSEC_PER_SEC) / u128::from(interface.per_second);
    let offset = i128::from(interface.offset_s) * i128::from(NSEC_PER_SEC);
    let ns = i128::try_from(ns)
        .unwrap_or(i128::MAX)
        .saturating_add(offset);
    u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
}

/// A packet's bytes without the padding of its block.
fn captured(data: &[u8], len: u32) -> Result<&[u8], String> {
    data.get(..len as usize).ok_or_else(|| {
        format!(
            "a packet of {len} bytes in a block that holds {}",
            data.len()
        )
    })
}

/// Reads until the buffer is full or the source ends.
fn fill(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut n = 0;
    while n < buffer.len() {
        match source.read(&mut buffer[n..]) {
            Ok(0) => break,
            Ok(more) => n += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(n)
}

/// The parser wants a whole header at once, and forgets why a reader failed.
struct Filling<R> {
    inner: R,
    failed: Failure,
}

#[derive(Clone, Default)]
struct Failure(std::sync::Arc<std::sync::Mutex<Option<io::Error>>>);

impl Failure {
    fn set(&self, error: io::Error) {
        *self.0.lock().unwrap_or_else(|e| e.into_inner()) = Some(error);
    }

    fn take(&self) -> Option<io::Error> {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).take()
    }
}

impl<R: Read> Read for Filling<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        fill(&mut self.inner, buffer).map_err(|e| {
            let kind = e.kind();
            self.failed.set(e);
            io::Error::from(kind)
        })
    }
}

/// The source, unpacked if it is compressed.
fn unpacked<'a>(mut source: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
    let mut first = [0; 4];
    let n = fill(&mut source, &mut first)?;
    let whole = Cursor::new(first[..n].to_vec()).chain(source);
    if first.starts_with(&GZIP) {
        return Ok(Box::new(MultiGzDecoder::new(whole)));
    }
    if first == ZSTD || is_skippable(first) {
        return Ok(Box::new(ZstdFrames::Between(whole)));
    }
    Ok(Box::new(whole))
}

/// A source whose first bytes were looked at.
struct Again<R> {
    first: [u8; 4],
    left: usize,
    inner: R,
}

impl<R: Read> Read for Again<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return self.inner.read(buffer);
        }
        let n = self.left.min(buffer.len());
        let from = self.first.len() - self.left;
        buffer[..n].copy_from_slice(&self.first[from..from + n]);
        self.left -= n;
        Ok(n)
    }
}

type ZstdFrame<R> = StreamingDecoder<Again<R>, FrameDecoder>;

/// All the frames of a zstd file, one after another (RFC 8878 §3.1).
enum ZstdFrames<R: Read> {
    Between(R),
    Within(Box<ZstdFrame<R>>),
    Ended,
}

impl<R: Read> ZstdFrames<R> {
    /// The next frame that is not to be skipped.
    fn begin(mut source: R) -> io::Result<ZstdFrames<R>> {
        loop {
            let mut first = [0; 4];
            match fill(&mut source, &mut first)? {
                0 => return Ok(ZstdFrames::Ended),
                4 => {}
                n => return Err(zstd_error(format!("{n} bytes after the last frame"))),
            }
            if !is_skippable(first) {
                let again = Again {
                    first,
                    left: 4,
                    inner: source,
                };
                let frame = StreamingDecoder::new(again).map_err(zstd_error)?;
                return Ok(ZstdFrames::Within(Box::new(frame)));
            }
            let mut length = [0; 4];
            fill(&mut source, &mut length)?;
            let length = u64::from(u32::from_le_bytes(length));
            io::copy(&mut (&mut source).take(length), &mut io::sink())?;
        }
    }
}

fn is_skippable(magic: [u8; 4]) -> bool {
    u32::from_le_bytes(magic) & !0xf == ZSTD_SKIPPABLE
}

fn zstd_error(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("zstd: {error}"))
}

impl<R: Read> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            *self = match std::mem::replace(self, ZstdFrames::Ended) {
                ZstdFrames::Ended => return Ok(0),
                ZstdFrames::Between(source) => ZstdFrames::begin(source)?,
                ZstdFrames::Within(mut frame) => {
                    let n = frame.read(buffer)?;
                    if n > 0 {
                        *self = ZstdFrames::Within(frame);
                        return Ok(n);
                    }
                    ZstdFrames::Between(frame.into_inner().inner)
                }
            };
        }
    }
}
