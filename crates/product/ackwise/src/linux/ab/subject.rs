//! The datapath that an experiment turns off and on.

use ackwise_datapath::{Datapath, Error, FlowStats, Stats};
use ackwise_netdev::daemon::Daemon;

/// A datapath whose policy can be turned off and on.
pub trait Subject: Daemon<Stats = Stats, Error = Error> {
    fn pause(&self, paused: bool) -> Result<(), Error>;
    fn flows(&self, limit: usize) -> Result<Vec<FlowStats>, Error>;
}

impl Subject for Datapath {
    fn pause(&self, paused: bool) -> Result<(), Error> {
        Datapath::pause(self, paused)
    }

    fn flows(&self, limit: usize) -> Result<Vec<FlowStats>, Error> {
        Datapath::flows(self, limit)
    }
}
