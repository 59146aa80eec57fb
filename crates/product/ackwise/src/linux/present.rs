//! The current names of interfaces. A holder records the index, and the name at the time of
//! attaching.

use ackwise_datapath::control::Holder;
use ackwise_netdev::ifreq;
use ackwise_netdev::registry::netns_inode;

/// Replaces the error that nothing runs on an interface by a more exact one if there is no such
/// interface, which is bad input.
pub fn unless_missing(interface: &str, error: anyhow::Error) -> anyhow::Error {
    match ifreq::index_of(interface) {
        Some(_) => error,
        None => ackwise_netdev::Error::NoInterface(interface.to_owned()).into(),
    }
}

/// The names of this process's network namespace.
pub struct Names {
    /// The inode of the namespace.
    pub netns: u64,
}

impl Names {
    pub fn new() -> Self {
        // No namespace has inode 0.
        let netns = netns_inode().unwrap_or(0);
        Self { netns }
    }

    /// The current name of an interface, if it was renamed since the holder attached to it. Names
    /// in other network namespaces cannot be seen.
    pub fn other(&self, holder: &Holder) -> Option<String> {
        let is_here = holder.netns == self.netns;
        let now = is_here.then(|| ifreq::name_at(holder.ifindex)).flatten();
        now.filter(|now| *now != holder.ifname)
    }
}

/// An interface for a person: its current name, and the former one if it was renamed.
pub fn named(ifname: &str, now: Option<&str>) -> String {
    match now {
        Some(now) => format!("{now} (was {ifname})"),
        None => ifname.to_owned(),
    }
}
