//! The control connection: how the two ends agree on what they do, and exchange what they saw.
//!
//! A frame is its length as four bytes in network order, a byte that says what it is, and that.
//! Messages are JSON; records are a fixed number of bytes each. Whoever reads bounds the length
//! before it keeps anything.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::record::{self, Record, decode, encode};
use crate::script::{End, Stage};

/// The version of this protocol and of the scripts: both ends must have the same.
pub const VERSION: u32 = 3;
/// No frame to the server is longer, in bytes.
pub const MAX_REQUEST: usize = 1024;
/// No message to the client is longer, in bytes.
pub const MAX_ANSWER: usize = 4096;
/// No end sends more packets in a stage, whatever the other one does.
pub const MAX_SENT: usize = 6000;
/// No end keeps more packets of those that it sees in a stage.
pub const MAX_SEEN: usize = 15_000;

/// The length of a frame of so many records, in bytes.
#[must_use]
pub const fn records_len(count: usize) -> usize {
    1 + count * record::LEN
}

const MESSAGE: u8 = 1;
const RECORDS: u8 = 2;

/// What the client says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// The first message.
    Hello {
        /// [`VERSION`].
        version: u32,
    },
    /// Play this.
    Stage {
        /// What.
        stage: Stage,
        /// Whose ACKs are looked at.
        acks: End,
        /// Time between ACKs where they are fast, in microseconds.
        interval_us: u32,
    },
    /// The stage is over: what was sent and seen?
    Collect,
}

/// What the server says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// To [`Request::Hello`].
    Welcome {
        /// [`VERSION`].
        version: u32,
        /// The port of the flows.
        port: u16,
    },
    /// Somebody else probes.
    Busy {
        /// Until then at the latest.
        seconds: u32,
    },
    /// To [`Request::Stage`]: connections may come.
    Ready,
    /// To [`Request::Collect`]; what was sent and what was seen follow as two frames.
    Collected,
    /// The server cannot go on.
    Failed {
        /// Why.
        why: String,
    },
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame<M> {
    /// A message.
    Message(M),
    /// Packets.
    Records(Vec<Record>),
}

/// Reads what is in a frame, behind its length.
///
/// # Errors
/// It is nothing of this protocol.
pub fn parse<M: for<'a> Deserialize<'a>>(body: &[u8]) -> Result<Frame<M>, Error> {
    match body {
        [MESSAGE, text @ ..] => {
            let message = serde_json::from_slice(text);
            let message = message.map_err(|error| Error::protocol(&error.to_string()))?;
            Ok(Frame::Message(message))
        }
        [RECORDS, bytes @ ..] => {
            let records = decode(bytes);
            let records = records.ok_or_else(|| Error::protocol("bad records"))?;
            Ok(Frame::Records(records))
        }
        _ => Err(Error::protocol("a frame of no known kind")),
    }
}

/// Reads a frame of at most `longest` bytes.
///
/// # Errors
/// The connection broke, or what came is nothing of this protocol.
pub fn read<M: for<'a> Deserialize<'a>>(
    from: &mut impl Read,
    longest: usize,
) -> Result<Frame<M>, Error> {
    let broke = |source: io::Error| match source.kind() {
        io::ErrorKind::UnexpectedEof => Error::Gone,
        _ => Error::System {
            what: "hear the partner",
            source,
        },
    };
    let mut length = [0; 4];
    from.read_exact(&mut length).map_err(broke)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > longest {
        return Err(Error::protocol(&format!("a frame of {length} bytes")));
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).map_err(broke)?;
    parse(&body)
}

fn write(to: &mut impl Write, kind: u8, body: &[u8]) -> Result<(), Error> {
    let mut frame = Vec::with_capacity(5 + body.len());
    frame.extend((body.len() as u32 + 1).to_be_bytes());
    frame.push(kind);
    frame.extend(body);
    let written = to.write_all(&frame);
    written.map_err(Error::system("talk to the partner"))
}

/// Sends a message.
///
/// # Errors
/// The connection broke.
pub fn write_message(to: &mut impl Write, message: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_vec(message);
    let text = text.map_err(|error| Error::protocol(&error.to_string()))?;
    write(to, MESSAGE, &text)
}

/// Sends records.
///
/// # Errors
/// The connection broke.
pub fn write_records(to: &mut impl Write, records: &[Record]) -> Result<(), Error> {
    write(to, RECORDS, &encode(records))
}
