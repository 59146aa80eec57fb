//! The contents of a file that is compressed with gzip or zstd, or plain.

use std::io::{self, Cursor, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder, StreamingDecoder};

use crate::error::CaptureError;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The magic of a skippable frame; the last half byte may have any value.
const ZSTD_SKIPPABLE: u32 = 0x184d_2a50;
/// The last block of a frame, raw and empty, and four bytes in place of a checksum.
const ZSTD_LAST_BLOCK: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

/// Reads until the buffer is full or the source ends.
pub(crate) fn fill(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
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

/// Keeps the error of a reader, for callers of a parser that drops it.
#[derive(Clone, Default)]
pub(crate) struct Failure(Arc<Mutex<Option<io::Error>>>);

impl Failure {
    /// Keeps the error, and returns another of the same kind.
    pub(crate) fn keep(&self, error: io::Error) -> io::Error {
        let kind = error.kind();
        *self.0.lock().unwrap_or_else(|e| e.into_inner()) = Some(error);
        kind.into()
    }

    pub(crate) fn take(&self) -> Option<io::Error> {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).take()
    }
}

/// A flag that is set once, shared by the reader and its caller.
#[derive(Clone, Default)]
pub(crate) struct Flag(Arc<AtomicBool>);

impl Flag {
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A source, decompressed if necessary.
pub(crate) struct Unpacked<'a> {
    pub(crate) source: Box<dyn Read + Send + 'a>,
    /// Whether the compressed data end too early, together with the source.
    pub(crate) cut: Flag,
}

impl<'a> Unpacked<'a> {
    pub(crate) fn new(mut source: impl Read + Send + 'a) -> io::Result<Self> {
        let mut first = [0; 4];
        let n = fill(&mut source, &mut first)?;
        let whole = Cursor::new(first[..n].to_vec()).chain(source);
        let cut = Flag::default();
        let compressed = Compressed {
            inner: whole,
            ended: Flag::default(),
            failed: Failure::default(),
        };
        let source: Box<dyn Read + Send + 'a> = if first.starts_with(&GZIP) {
            Decompressor::boxed(compressed, &cut, MultiGzDecoder::new)
        } else if first == ZSTD || is_skippable(first) {
            Decompressor::boxed(compressed, &cut, ZstdFrames::Between)
        } else {
            Box::new(compressed.inner)
        };
        Ok(Unpacked { source, cut })
    }
}

/// The compressed source, which remembers what a decompressor does not report.
struct Compressed<R> {
    inner: R,
    ended: Flag,
    failed: Failure,
}

impl<R: Read> Read for Compressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.inner.read(buffer) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.failed.keep(e)),
                Ok(n) => {
                    if n == 0 && !buffer.is_empty() {
                        self.ended.set();
                    }
                    return Ok(n);
                }
            }
        }
    }
}

/// A decompressor that ends where its source does, and otherwise reports what is wrong.
struct Decompressor<D> {
    decoder: D,
    ended: Flag,
    failed: Failure,
    cut: Flag,
    /// Number of bytes decompressed.
    bytes: u64,
}

impl<D: Read> Decompressor<D> {
    fn boxed<'a, R>(
        compressed: Compressed<R>,
        cut: &Flag,
        decoder: impl FnOnce(Compressed<R>) -> D,
    ) -> Box<dyn Read + Send + 'a>
    where
        D: Send + 'a,
    {
        Box::new(Decompressor {
            ended: compressed.ended.clone(),
            failed: compressed.failed.clone(),
            cut: cut.clone(),
            bytes: 0,
            decoder: decoder(compressed),
        })
    }
}

impl<D: Read> Read for Decompressor<D> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cut.is_set() {
            return Ok(0);
        }
        let error = match self.decoder.read(buffer) {
            Ok(n) => {
                self.bytes += n as u64;
                return Ok(n);
            }
            Err(error) => error,
        };
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.ended.is_set() {
            self.cut.set();
            return Ok(0);
        }
        Err(match error.kind() {
            io::ErrorKind::Unsupported => error,
            _ => io::Error::other(CaptureError::Decompression {
                at: self.bytes,
                what: error.to_string(),
            }),
        })
    }
}

/// A source whose first bytes have been peeked at.
struct Peeked<R> {
    first: [u8; 4],
    left: usize,
    inner: R,
}

impl<R: Read> Read for Peeked<R> {
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

type ZstdFrame<R> = StreamingDecoder<Peeked<R>, FrameDecoder>;

/// All the frames of a zstd file, one after another (RFC 8878 §3.1).
enum ZstdFrames<R: Read> {
    Between(R),
    Within(Box<ZstdFrame<R>>),
    /// The rest of a frame that cannot be read any further, and why.
    Broken(Box<FrameDecoder>, io::Error),
    Ended,
}

impl<R: Read> ZstdFrames<R> {
    /// Starts the next frame, past skippable ones.
    fn begin(mut source: R) -> io::Result<ZstdFrames<R>> {
        loop {
            let mut first = [0; 4];
            match fill(&mut source, &mut first)? {
                0 => return Ok(ZstdFrames::Ended),
                4 => {}
                n => return Err(damaged(&format!("{n} bytes after the last zstd frame"))),
            }
            if !is_skippable(first) {
                let again = Peeked {
                    first,
                    left: 4,
                    inner: source,
                };
                let frame = StreamingDecoder::new(again).map_err(|e| no_frame(&e))?;
                return Ok(ZstdFrames::Within(Box::new(frame)));
            }
            let mut length = [0; 4];
            source.read_exact(&mut length)?;
            let length = u64::from(u32::from_le_bytes(length));
            if io::copy(&mut (&mut source).take(length), &mut io::sink())? < length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Continues after a frame that was read to its end.
    fn after(frame: ZstdFrame<R>) -> io::Result<ZstdFrames<R>> {
        let said = frame.decoder.get_checksum_from_data();
        if said.is_some() && said != frame.decoder.get_calculated_checksum() {
            return Err(damaged("the checksum of a zstd frame is wrong"));
        }
        Ok(ZstdFrames::Between(frame.into_inner().inner))
    }

    /// Ends a frame that is broken: a decoder keeps back a window of bytes until its frame ends.
    fn broken(frame: ZstdFrame<R>) -> ZstdFrames<R> {
        let mut decoder = frame.into_frame_decoder();
        // If this fails, the decoder keeps those bytes.
        let _ = decoder.decode_blocks(&ZSTD_LAST_BLOCK[..], BlockDecodingStrategy::All);
        let why = damaged("a zstd block that makes no sense");
        ZstdFrames::Broken(Box::new(decoder), why)
    }
}

fn is_skippable(magic: [u8; 4]) -> bool {
    u32::from_le_bytes(magic) & !0xf == ZSTD_SKIPPABLE
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn no_frame(error: &FrameDecoderError) -> io::Error {
    match error {
        FrameDecoderError::DictNotProvided { dict_id } => io::Error::new(
            io::ErrorKind::Unsupported,
            format!("it needs the zstd dictionary {dict_id}: unpack it with `zstd -d -D FILE`"),
        ),
        _ => damaged("no zstd frame begins there"),
    }
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
                ZstdFrames::Within(mut frame) => match frame.read(buffer) {
                    Ok(0) => ZstdFrames::after(*frame)?,
                    Ok(n) => {
                        *self = ZstdFrames::Within(frame);
                        return Ok(n);
                    }
                    Err(_) => ZstdFrames::broken(*frame),
                },
                ZstdFrames::Broken(mut decoder, why) => {
                    let n = decoder.read(buffer)?;
                    if n == 0 {
                        return Err(why);
                    }
                    *self = ZstdFrames::Broken(decoder, why);
                    return Ok(n);
                }
            };
        }
    }
}
