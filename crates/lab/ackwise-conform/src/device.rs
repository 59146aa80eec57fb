//! The device under test, seen from outside.

use std::path::PathBuf;

use ackwise_engines::LabError;

use crate::packet::Side;
use crate::schedule::{Schedule, Shaper};

/// A packet that came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// Arrival time on the clock of the schedule.
    pub at_ns: u64,
    /// The end that sent it.
    pub from: Side,
    /// The packet from its IP header on.
    pub packet: Vec<u8>,
}

/// A device that passes packets between the receiver and the sender.
pub trait Device {
    /// Its name in reports.
    fn name(&self) -> String;

    /// The rate at which ACKs leave, if it is known: a packet that waits longer than in a plain
    /// queue of that rate is late.
    fn shaper(&self) -> Shaper;

    /// Sends the packets of the schedule at their times, and returns the arrivals in order of time.
    ///
    /// # Errors
    /// The device cannot be set up, or it failed.
    fn run(&mut self, schedule: &Schedule) -> Result<Vec<Arrival>, Error>;
}

/// The reason why a device was not judged.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine rejected something, or a command failed.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A datapath could not be attached.
    #[error(transparent)]
    Datapath(#[from] ackwise_datapath::Error),
    /// There is no such policy, or it has no such parameter.
    #[error("{0}")]
    BadPolicy(String),
    /// No case has this name.
    #[error("there is no case `{0}`; `ackwise-lab conform --list` names them")]
    NoSuchCase(String),
    /// No built-in device has this name.
    #[error("there is no device `{0}`; `ackwise-lab conform --list` names them")]
    NoSuchDevice(String),
    /// A file cannot be written or read.
    #[error("{}: {source}", path.display())]
    File {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// This machine lacks what the device needs.
    #[error("{0}")]
    Missing(String),
}

impl Error {
    /// Whether the arguments are at fault.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::NoSuchCase(_) | Self::NoSuchDevice(_) | Self::BadPolicy(_) => true,
            Self::Lab(error) => error.is_bad_input(),
            _ => false,
        }
    }
}
