//! What is under test, seen from outside.

use std::path::PathBuf;

use ackwise_engines::LabError;

use crate::packet::Side;
use crate::schedule::{Schedule, Shaper};

/// A packet that came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// When, on the clock of the schedule.
    pub at_ns: u64,
    /// Which end it came from.
    pub from: Side,
    /// From its IP header on.
    pub packet: Vec<u8>,
}

/// Something that passes packets on between the receiver and the sender.
pub trait Device {
    /// What it is called in reports.
    fn name(&self) -> String;

    /// The rate at which ACKs leave, if it is known: what waits longer than in a plain queue
    /// of that rate is late.
    fn shaper(&self) -> Shaper;

    /// Sends what the schedule says when it says it, and returns what arrived, in the order of
    /// time.
    ///
    /// # Errors
    /// The device cannot be set up, or it broke.
    fn run(&mut self, schedule: &Schedule) -> Result<Vec<Arrival>, Error>;
}

/// Why a device was not judged.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine, or a command, refused something.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A datapath could not be attached.
    #[error(transparent)]
    Datapath(#[from] ackwise_datapath::Error),
    /// There is no such policy, or it has no such parameter.
    #[error("{0}")]
    BadPolicy(String),
    /// No case has such a name.
    #[error("there is no case `{0}`; `ackwise-lab conform --list` names them")]
    NoSuchCase(String),
    /// No built-in device has such a name.
    #[error("there is no device `{0}`; `ackwise-lab conform --list` names them")]
    NoSuchDevice(String),
    /// A file cannot be written or read.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
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
