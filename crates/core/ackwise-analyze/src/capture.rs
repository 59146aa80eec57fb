//! Reads capture files: pcap and pcapng, plain or compressed with gzip or zstd, from any reader.

use std::io::{self, Cursor, Read};

use pcap_parser::pcapng::Block;
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{LegacyPcapReader, PcapBlockOwned, PcapError, PcapNGReader};

use crate::error::CaptureError;
use crate::link::LinkType;
use crate::unpack::{Failure, Unpacked, fill};

const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// The byte-order magic of a pcapng section, as read in the right order.
const PCAPNG_ORDER: u32 = 0x1a2b_3c4d;
const PCAPNG_SIMPLE: u32 = 3;
const PCAPNG_ENHANCED: u32 = 6;
/// The initial buffer size; the buffer grows with the largest packet.
const BUFFER: usize = 256 << 10;
/// The maximum size of a block; a longer one is taken to be damage.
const MAX_BLOCK: usize = 64 << 20;
/// The smallest limit on the length of a packet, used if the file's snap length is smaller:
/// libpcap's.
const MIN_SNAP_LEN: u32 = 262_144;
const NSEC_PER_SEC: u64 = 1_000_000_000;

/// A captured packet.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// The time, in nanoseconds since 1970.
    pub at_ns: u64,
    /// Whether the file has a time for it. Otherwise `at_ns` is the time of the previous packet.
    pub timed: bool,
    /// The interface's number in the file, from 0.
    pub interface: u32,
    /// The layer that the first byte belongs to.
    pub link: LinkType,
    /// Its length on the wire in bytes.
    pub wire_len: u32,
    /// The captured bytes.
    pub bytes: &'a [u8],
}

/// How the reading of a file ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadSummary {
    /// Number of packets read.
    pub packets: u64,
    /// `Some` if the file is truncated: the offset, after decompression, up to which packets are
    /// whole.
    pub cut_at: Option<u64>,
}

/// Calls `each` with every packet of a capture, in file order.
///
/// # Errors
/// [`CaptureError`]; `each` has been called with the packets before the error.
pub fn read(
    source: impl Read + Send,
    each: &mut dyn FnMut(&Packet<'_>),
) -> Result<ReadSummary, CaptureError> {
    let Unpacked { mut source, cut } = Unpacked::new(source)?;
    let mut first = [0; 4];
    let n = fill(&mut source, &mut first)?;
    if n == 0 && cut.is_set() {
        let what = "they end there".to_owned();
        return Err(CaptureError::Decompression { at: 0, what });
    }
    if n == 0 {
        return Err(CaptureError::Empty);
    }
    let known = first[..n].to_vec();
    let failed = Failure::default();
    let whole = FillReader {
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
    let whole = read_blocks(&mut *reader, &mut state, each).map_err(|stop| match stop {
        Stop::Unreadable => failed.take().map_or_else(
            || state.damaged(reader.consumed(), "it cannot be read"),
            Into::into,
        ),
        Stop::Damaged(what) => state.damaged(reader.consumed(), &what),
    })?;
    Ok(ReadSummary {
        packets: state.packets,
        cut_at: (!whole || cut.is_set()).then_some(reader.consumed() as u64),
    })
}

enum Stop {
    Unreadable,
    Damaged(String),
}

/// Reads all blocks. Returns whether the last packet is whole.
fn read_blocks(
    reader: &mut dyn PcapReaderIterator,
    state: &mut State,
    each: &mut dyn FnMut(&Packet<'_>),
) -> Result<bool, Stop> {
    let mut capacity = BUFFER;
    loop {
        let more = match reader.next() {
            Ok((size, block)) => {
                state.block(&block, each).map_err(Stop::Damaged)?;
                reader.consume(size);
                continue;
            }
            Err(PcapError::Eof) => return Ok(true),
            Err(PcapError::UnexpectedEof) => {
                // A wrong length also reaches beyond the end.
                let wrong = state.wrong_length(reader.data());
                return wrong.map_or(Ok(false), |what| Err(Stop::Damaged(what)));
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
        // A block may be long or only claim to be: the buffer grows once it is full.
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
    /// Its time units per second.
    per_second: u64,
    offset_s: i64,
    snap_len: u32,
}

#[derive(Default)]
struct State {
    interfaces: Vec<Interface>,
    /// The number of this section's first interface: a file may consist of several captures.
    section: usize,
    /// The byte order of this section.
    big_endian: bool,
    /// The snap length of a pcap file; in pcapng each interface has its own.
    legacy_snap_len: Option<u32>,
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

    /// Describes a wrong length at the start of an incomplete packet or block.
    fn wrong_length(&self, data: &[u8]) -> Option<String> {
        let field = |at| u32_at(data, at, self.big_endian);
        let packet = |len: Option<u32>, max| {
            len.filter(|len| *len as usize > max)
                .map(|len| format!("a packet of {len} bytes"))
        };
        if let Some(snap_len) = self.legacy_snap_len {
            let max = MAX_BLOCK.min(snap_len.max(MIN_SNAP_LEN) as usize);
            return packet(field(8), max).or_else(|| packet(field(12), MAX_BLOCK));
        }
        // A section header gives its own byte order.
        let big_endian = match data.get(..4)? {
            kind if *kind == PCAPNG => u32_at(data, 8, true)? == PCAPNG_ORDER,
            _ => self.big_endian,
        };
        let len = u32_at(data, 4, big_endian)?;
        if len < 12 || len % 4 != 0 || len as usize > MAX_BLOCK {
            return Some(format!("a block of {len} bytes"));
        }
        match field(0)? {
            PCAPNG_SIMPLE => packet(field(8), MAX_BLOCK),
            PCAPNG_ENHANCED => {
                packet(field(20), len as usize).or_else(|| packet(field(24), MAX_BLOCK))
            }
            _ => None,
        }
    }

    fn block(
        &mut self,
        block: &PcapBlockOwned<'_>,
        each: &mut dyn FnMut(&Packet<'_>),
    ) -> Result<(), String> {
        match block {
            PcapBlockOwned::LegacyHeader(h) => {
                self.big_endian = h.is_bigendian();
                self.legacy_snap_len = Some(h.snaplen);
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
            Block::SectionHeader(s) => {
                self.big_endian = s.big_endian();
                self.section = self.interfaces.len();
                Ok(())
            }
            Block::InterfaceDescription(i) => {
                self.interfaces.push(Interface {
                    link: LinkType(i.linktype.0.cast_unsigned() & 0xffff),
                    per_second: per_second(i.if_tsresol)?,
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
        if wire_len as usize > MAX_BLOCK {
            return Err(format!("a packet of {wire_len} bytes"));
        }
        // A packet without a time gets that of the previous packet.
        let at_ns = units.map_or(self.last_ns, |units| to_ns(units, &interface));
        self.last_ns = at_ns;
        self.packets += 1;
        each(&Packet {
            at_ns,
            timed: units.is_some(),
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

/// An interface's time units per second, from the option `if_tsresol`: a power of 10 or, if the
/// highest bit is set, of 2. (The parser's own function refuses all powers of 2.)
fn per_second(resolution: u8) -> Result<u64, String> {
    let power = u32::from(resolution & 0x7f);
    let (base, units) = match resolution & 0x80 {
        0 => (10, 10_u64.checked_pow(power)),
        _ => (2, 1_u64.checked_shl(power)),
    };
    units.ok_or_else(|| format!("a clock of {base}^-{power} s"))
}

fn to_ns(units: u64, interface: &Interface) -> u64 {
    let ns = u128::from(units) * u128::from(NSEC_PER_SEC) / u128::from(interface.per_second);
    let offset = i128::from(interface.offset_s) * i128::from(NSEC_PER_SEC);
    let ns = i128::try_from(ns)
        .unwrap_or(i128::MAX)
        .saturating_add(offset);
    u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
}

fn u32_at(data: &[u8], at: usize, big_endian: bool) -> Option<u32> {
    let bytes = data.get(at..at + 4)?.try_into().ok()?;
    Some(if big_endian {
        u32::from_be_bytes(bytes)
    } else {
        u32::from_le_bytes(bytes)
    })
}

/// A packet's bytes, without the padding of its block.
fn captured(data: &[u8], len: u32) -> Result<&[u8], String> {
    data.get(..len as usize).ok_or_else(|| {
        format!(
            "a packet of {len} bytes in a block that holds {}",
            data.len()
        )
    })
}

/// A reader that fills the whole buffer and keeps its error: the parser needs a whole header at
/// once, and drops the error of a failed read.
struct FillReader<R> {
    inner: R,
    failed: Failure,
}

impl<R: Read> Read for FillReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        fill(&mut self.inner, buffer).map_err(|e| self.failed.keep(e))
    }
}
