//! The names that interfaces have now. Who is attached has an index, and the name of that day.

use ackwise_datapath::control::Holder;
use ackwise_netdev::ifreq;
use ackwise_netdev::registry::netns_inode;

/// The names of this process's network namespace.
pub struct Names {
    /// Its inode.
    pub netns: u64,
}

impl Names {
    pub fn new() -> Self {
        // No namespace has this number.
        let netns = netns_inode().unwrap_or(0);
        Self { netns }
    }

    /// The name that an interface has now, if it is another one than when somebody attached to it. Those of
    /// other network namespaces cannot be seen.
    pub fn other(&self, holder: &Holder) -> Option<String> {
        let is_here = holder.netns == self.netns;
        let now = is_here.then(|| ifreq::name_at(holder.ifindex)).flatten();
        now.filter(|now| *now != holder.ifname)
    }
}

/// An interface as a person finds it: by its name now, with the one that it had.
pub fn named(ifname: &str, now: Option<&str>) -> String {
    match now {
        Some(now) => format!("{now} (was {ifname})"),
        None => ifname.to_owned(),
    }
}
