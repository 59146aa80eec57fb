//! The kernel's `netem` with a seed, which the `tc` of many distributions does not support.

use std::io;

use ackwise_netdev::netlink::{Netlink, push_attribute};
use nix::net::if_::if_nametoindex;

// include/uapi/linux/pkt_sched.h
const TCA_NETEM_RATE: u16 = 6;
const TCA_NETEM_RATE64: u16 = 8;
const TCA_NETEM_LATENCY64: u16 = 10;
const TCA_NETEM_JITTER64: u16 = 11;
const TCA_NETEM_PRNG_SEED: u16 = 14;

/// The parameters of a `netem`. They are not rounded to the kernel's ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Netem {
    /// The delay of every packet, in nanoseconds.
    pub delay_ns: u64,
    /// Jitter: the delay varies uniformly by ± this, in nanoseconds. The order is kept if there is
    /// a rate.
    pub jitter_ns: u64,
    /// Bytes per second; 0 for no limit. A packet's transmission time is added to its delay.
    pub rate: u64,
    /// Loss probability in units of 2⁻³².
    pub loss: u32,
    /// Duplication probability in units of 2⁻³².
    pub duplicate: u32,
    /// Maximum number of packets in flight.
    pub limit: u32,
    /// The seed of its random numbers (Linux 6.6).
    pub seed: u64,
}

impl Netem {
    /// Makes this the root queue discipline of an interface of the calling thread's network
    /// namespace.
    ///
    /// # Errors
    /// There is no such interface, it already has a root queue discipline, or the kernel has no
    /// `netem`.
    pub fn add_to(&self, interface: &str) -> io::Result<()> {
        let index = if_nametoindex(interface)?;
        Netlink::open()?.add_root_qdisc(index, "netem", &self.options())
    }

    fn options(&self) -> Vec<u8> {
        // struct tc_netem_qopt: latency and jitter are set by attributes below.
        let mut bytes = Vec::new();
        for word in [0, self.limit, self.loss, 0, self.duplicate, 0] {
            bytes.extend(u32::to_ne_bytes(word));
        }
        if self.rate > 0 {
            let narrow = u32::try_from(self.rate).unwrap_or(u32::MAX);
            let mut rate = [0; 16];
            rate[..4].copy_from_slice(&narrow.to_ne_bytes());
            push_attribute(&mut bytes, TCA_NETEM_RATE, &rate);
            push_attribute(&mut bytes, TCA_NETEM_RATE64, &self.rate.to_ne_bytes());
        }
        let delay = self.delay_ns.to_ne_bytes();
        push_attribute(&mut bytes, TCA_NETEM_LATENCY64, &delay);
        if self.jitter_ns > 0 {
            let jitter = self.jitter_ns.to_ne_bytes();
            push_attribute(&mut bytes, TCA_NETEM_JITTER64, &jitter);
        }
        push_attribute(&mut bytes, TCA_NETEM_PRNG_SEED, &self.seed.to_ne_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ackwise_netdev::netlink::find_attribute;

    #[test]
    fn netem_is_told_in_nanoseconds_and_bytes() {
        let netem = Netem {
            delay_ns: 20_000_001,
            jitter_ns: 7,
            rate: 25_000,
            loss: 7,
            limit: 9,
            seed: 3,
            ..Netem::default()
        };
        let options = netem.options();
        assert_eq!(options[4..8], 9_u32.to_ne_bytes());
        assert_eq!(options[8..12], 7_u32.to_ne_bytes());
        let attribute = |kind| find_attribute(&options[24..], kind);
        let value = |number: u64| number.to_ne_bytes();
        assert_eq!(attribute(TCA_NETEM_LATENCY64), Some(&value(20_000_001)[..]));
        assert_eq!(attribute(TCA_NETEM_JITTER64), Some(&value(7)[..]));
        assert_eq!(attribute(TCA_NETEM_RATE64), Some(&value(25_000)[..]));
        assert_eq!(attribute(TCA_NETEM_PRNG_SEED), Some(&value(3)[..]));
        assert_eq!(attribute(99), None);
    }
}
