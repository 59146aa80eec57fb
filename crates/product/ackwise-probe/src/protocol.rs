//! The control connection, on which the two ends agree on what to do and exchange what they saw.
//!
//! A frame is its length as four bytes in network order, a byte that says what it contains, and the
//! contents. Messages are JSON; records have a fixed length. A reader checks the length before it
//! stores anything.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::record::{self, Record, decode, encode};
use crate::script::{End, Stage};

/// The version of this protocol and of the scripts: both ends must have the same.
pub const VERSION: u32 = 3;
/// The maximum length of a frame to the server, in bytes.
pub const MAX_REQUEST: usize = 1024;
/// The maximum length of a message to the client, in bytes.
pub const MAX_ANSWER: usize = 4096;
/// The maximum number of packets that an end sends in a stage, whatever the other one does.
pub const MAX_SENT: usize = 6000;
/// The maximum number of packets that an end records as seen in a stage.
pub const MAX_RECORDED: usize = 15_000;

/// The length of a frame with this many records, in bytes.
#[must_use]
pub const fn records_len(count: usize) -> usize {
    1 + count * record::LEN
}

const MESSAGE: u8 = 1;
const RECORDS: u8 = 2;

/// The client's messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// The first message.
    Hello {
        /// [`VERSION`].
        version: u32,
    },
    /// Play a stage.
    Stage {
        /// The stage.
        stage: Stage,
        /// The end whose ACKs are examined.
        acks: End,
        /// The time between ACKs in the fast phase, in microseconds.
        interval_us: u32,
    },
    /// Asks what was sent and seen, now that the stage is over.
    Collect,
}

/// The server's messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// The answer to [`Request::Hello`].
    Welcome {
        /// [`VERSION`].
        version: u32,
        /// The port of the flows.
        port: u16,
    },
    /// Another client is being served.
    Busy {
        /// The latest time, in seconds, until that is over.
        seconds: u32,
    },
    /// The answer to [`Request::Stage`]: connections may be opened.
    Ready,
    /// The answer to [`Request::Collect`]; the records sent and those seen follow as two frames.
    Collected,
    /// The server cannot continue.
    Failed {
        /// The cause.
        why: String,
    },
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame<M> {
    /// A message.
    Message(M),
    /// Records of packets.
    Records(Vec<Record>),
}

/// Parses the contents of a frame, after its length.
///
/// # Errors
/// If it is not valid in this protocol.
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
/// If the connection broke, or the frame is not valid in this protocol.
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
/// If the connection broke.
pub fn write_message(to: &mut impl Write, message: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_vec(message);
    let text = text.map_err(|error| Error::protocol(&error.to_string()))?;
    write(to, MESSAGE, &text)
}

/// Sends records.
///
/// # Errors
/// If the connection broke.
pub fn write_records(to: &mut impl Write, records: &[Record]) -> Result<(), Error> {
    write(to, RECORDS, &encode(records))
}
