//! What to attach, where, and with which limits.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use ackwise_policy::{Capabilities, Config, FlowConfig};
use serde::{Deserialize, Serialize};

use crate::sys;
use crate::{AttachMode, Error};

/// Where the interface is on the path of the ACKs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Position {
    /// At the data receiver: ACKs leave through this interface.
    #[default]
    Receiver,
    /// On a router: ACKs leave through this interface.
    Router,
    /// At the data sender: ACKs arrive through this interface.
    Sender,
}

/// An ACK may have been delayed by up to 200 ms, Linux's longest delayed ACK, when it reaches the
/// hook, and must leave within 500 ms of the segment that it acknowledges (RFC 9293 §3.8.6.3).
const MAX_HOLD_US: u64 = 300_000;

/// Whether the kernel has IPsec, and so a helper that tells whether a packet came out of it.
fn has_ipsec() -> bool {
    Path::new("/proc/sys/net/core/xfrm_acq_expires").exists()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// An address prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prefix {
    /// The address; bits beyond the length are ignored.
    pub address: IpAddr,
    /// The number of leading bits that count.
    pub length: u8,
}

/// Which flows to thin, seen from this host. The default is all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Matches {
    /// Ports of the near side: this host, or the hosts behind this router.
    pub local_ports: Option<RangeInclusive<u16>>,
    /// Ports of the far side.
    pub remote_ports: Option<RangeInclusive<u16>>,
    /// Addresses of the near side.
    pub local: Option<Prefix>,
    /// Addresses of the far side.
    pub remote: Option<Prefix>,
}

/// The options of an attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The name of the interface, in the calling thread's network namespace.
    pub ifname: String,
    /// The policy that decides.
    pub policy: Config,
    /// Where the interface is on the path.
    pub position: Position,
    /// D: the maximum time for which an ACK is withheld.
    pub hold_max: Duration,
    /// An ACK is also withheld for at most RTT >> this.
    pub hold_rtt_shift: u32,
    /// The lower limit of the bound that the RTT gives, however short the RTT is; at most
    /// `hold_max`.
    pub hold_min: Duration,
    /// Write the congestion window of local sockets into the window field of their data, for
    /// receivers with `dca` or `tda`. At [`Position::Sender`] only.
    pub cwnd_hint: bool,
    /// Set a reserved bit, which asks for an immediate ACK, in the last data packet that a window
    /// allows and in retransmissions. At [`Position::Sender`] only, for a receiver with
    /// `obey_ack_rate`.
    pub ack_request: bool,
    /// Use the rate that the data sender asks for (TCP ACK Rate Request) as the n of the policy,
    /// and let an ACK leave that it asks for by a bit. At [`Position::Receiver`] with `every-n`
    /// only.
    pub obey_ack_rate: bool,
    /// Packets wait in a queue behind the interface that separates flows. Other traffic does not
    /// delay an ACK there, so the programs need not find out who fills the link.
    pub fair_queue: bool,
    /// The priority (`skb->priority`) to set on pure ACKs that leave while others fill the link, for
    /// a queue that classifies packets by it; 0 leaves the priority unchanged. Not at
    /// [`Position::Sender`].
    pub ack_priority: u32,
    /// The maximum number of tracked flows; the least recently used one is evicted first.
    pub max_flows: u32,
    /// The number of ACKs that can be withheld at the same time.
    pub slots: u32,
    /// Withhold nothing, but count what would be withheld, including ACKs that would have left at
    /// their deadline because their flow sent no other.
    pub dry_run: bool,
    /// The flows to thin.
    pub matches: Matches,
    /// How to attach.
    pub attach: AttachMode,
    /// Re-emit from a SCHED_FIFO thread if that is permitted.
    pub realtime: bool,
    /// Load the object that also contains programs for tests.
    #[cfg(feature = "selftest")]
    #[doc(hidden)]
    pub selftest: bool,
    /// Make clones of packets fail as if memory were short; needs `selftest`.
    #[cfg(feature = "selftest")]
    #[doc(hidden)]
    pub clone_fails: bool,
}

impl Options {
    /// The defaults for one interface.
    #[must_use]
    pub fn new(ifname: impl Into<String>, policy: Config) -> Self {
        Self {
            ifname: ifname.into(),
            policy,
            position: Position::default(),
            hold_max: Duration::from_micros(u64::from(sys::AW_HOLD_MAX_US)),
            hold_rtt_shift: sys::AW_HOLD_RTT_SHIFT,
            hold_min: Duration::from_micros(u64::from(sys::AW_HOLD_MIN_US)),
            cwnd_hint: false,
            ack_request: false,
            obey_ack_rate: false,
            fair_queue: false,
            ack_priority: 0,
            max_flows: 65_536,
            slots: 4096,
            dry_run: false,
            matches: Matches::default(),
            attach: AttachMode::default(),
            realtime: true,
            #[cfg(feature = "selftest")]
            selftest: false,
            #[cfg(feature = "selftest")]
            clone_fails: false,
        }
    }

    /// Whether flows learn who fills the link. At the sender the ACKs arrive, so what leaves there
    /// does not share their path.
    pub(crate) fn tells_who_fills_the_link(&self) -> bool {
        !self.fair_queue && self.position != Position::Sender
    }

    /// Whether the loader has to find out who fills the link.
    pub(crate) fn samples_egress(&self) -> bool {
        let has_ack_class = self.ack_priority != 0 && self.position != Position::Sender;
        self.tells_who_fills_the_link() || has_ack_class
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let range = |what, value: u64, lo: u64, hi: u64| {
            if (lo..=hi).contains(&value) {
                return Ok(());
            }
            Err(Error::Option {
                what,
                value,
                range: format!("from {lo} to {hi}"),
            })
        };
        range(
            "hold_max in microseconds",
            micros(self.hold_max),
            u64::from(sys::AW_HOLD_MIN_US),
            MAX_HOLD_US,
        )?;
        range(
            "hold_min in microseconds",
            micros(self.hold_min),
            u64::from(sys::AW_HOLD_MIN_US),
            micros(self.hold_max),
        )?;
        match self.position {
            _ if !self.cwnd_hint && !self.ack_request => {}
            Position::Sender => {}
            Position::Receiver => return Err(Error::NotTheSender("receiver")),
            Position::Router => return Err(Error::NotTheSender("router")),
        }
        if self.obey_ack_rate
            && (self.position != Position::Receiver || self.policy.policy().name() != "every-n")
        {
            return Err(Error::NotObeying);
        }
        range("hold_rtt_shift", u64::from(self.hold_rtt_shift), 0, 16)?;
        range("max_flows", u64::from(self.max_flows), 64, 1 << 20)?;
        range(
            "slots",
            u64::from(self.slots),
            1,
            u64::from(sys::AW_SLOTS_MAX),
        )?;
        for p in [&self.matches.local, &self.matches.remote]
            .into_iter()
            .flatten()
        {
            let longest = if p.address.is_ipv4() { 32 } else { 128 };
            range("prefix length", u64::from(p.length), 0, longest)?;
        }
        self.policy.policy().check(Capabilities::DATAPATH)?;
        Ok(())
    }

    /// The policy, and the bounds of a hold.
    pub(crate) fn flow(&self) -> FlowConfig {
        let us = |time| u32::try_from(micros(time)).unwrap_or(sys::AW_HOLD_MAX_US);
        FlowConfig::new(&self.policy).with_hold(
            us(self.hold_min),
            us(self.hold_max),
            self.hold_rtt_shift,
        )
    }

    /// The possible hold times, us, ascending: each D that the contract may grant, and below the
    /// smallest of them the times that a policy may ask for.
    pub(crate) fn classes(&self) -> Vec<u32> {
        let flow = self.flow();
        let bounds = flow.raw();
        let shorter = flow.with_hold(sys::AW_HOLD_MIN_US, bounds.hold_max_us, 0);
        let mut classes = shorter.holds();
        classes.push(bounds.hold_min_us);
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    /// The options for programs that run in test runs only and are not attached.
    #[cfg(feature = "selftest")]
    pub(crate) fn to_bpf_unattached(&self) -> sys::aw_options {
        self.to_bpf(1, sys::AW_LINK_ETHERNET, false)
    }

    pub(crate) fn to_bpf(&self, ifindex: u32, link: u32, clsact: bool) -> sys::aw_options {
        let mut o = sys::aw_options::default();
        let classes = self.classes();
        let flow = self.flow();
        let flow = flow.raw();
        o.flow.policy.policy = flow.policy.policy;
        o.flow.policy.param = flow.policy.param;
        o.flow.hold_max_us = flow.hold_max_us;
        o.flow.hold_min_us = flow.hold_min_us;
        o.flow.hold_rtt_shift = flow.hold_rtt_shift;
        o.cwnd_hint = u8::from(self.cwnd_hint);
        o.ack_request = u8::from(self.ack_request);
        o.obey_ack_rate = u8::from(self.obey_ack_rate);
        // Packets leave IPsec at ingress.
        o.ipsec = u8::from(self.position == Position::Sender && has_ipsec());
        o.class_us = [sys::AW_CLASS_UNUSED; sys::AW_CLASS_TABLE as usize];
        o.class_us[0] = 0;
        o.class_us[1..=classes.len()].copy_from_slice(&classes);
        o.classes = classes.len() as u32 + 1;
        o.slots = self.slots;
        o.position = match self.position {
            Position::Receiver | Position::Router => sys::AW_AT_RECEIVER,
            Position::Sender => sys::AW_AT_SENDER,
        };
        o.link = link;
        o.ifindex = ifindex;
        o.clsact = u8::from(clsact);
        o.dry_run = u8::from(self.dry_run);
        o.uplink = u8::from(self.tells_who_fills_the_link());
        if self.position != Position::Sender {
            o.ack_priority = self.ack_priority;
        }
        // At a receiver the near side sends the ACKs, at a sender the data.
        let (near, far) = match self.position {
            Position::Sender => (sys::AW_SIDE_DATA, sys::AW_SIDE_ACKS),
            _ => (sys::AW_SIDE_ACKS, sys::AW_SIDE_DATA),
        };
        o.match_.port_hi = [u16::MAX; 2];
        for (side, ports, prefix) in [
            (near, &self.matches.local_ports, &self.matches.local),
            (far, &self.matches.remote_ports, &self.matches.remote),
        ] {
            let side = side as usize;
            if let Some(ports) = ports {
                o.match_.port_lo[side] = *ports.start();
                o.match_.port_hi[side] = *ports.end();
                o.match_.used = 1;
            }
            if let Some(prefix) = prefix {
                let (address, mask) = prefix.words();
                o.match_.addr[side].w = address;
                o.match_.mask[side].w = mask;
                o.match_.version[side] = if prefix.address.is_ipv4() { 4 } else { 6 };
                o.match_.used = 1;
            }
        }
        o
    }
}

impl Prefix {
    /// The address and the mask in network byte order.
    fn words(&self) -> ([u32; 4], [u32; 4]) {
        let mut address = [0_u8; 16];
        let bits: u128 = u128::MAX
            .checked_shl(128 - u32::from(self.length))
            .unwrap_or(0);
        let mask = match self.address {
            IpAddr::V4(a) => {
                address[..4].copy_from_slice(&a.octets());
                bits.to_be_bytes()
            }
            IpAddr::V6(a) => {
                address = a.octets();
                bits.to_be_bytes()
            }
        };
        (words(&address), words(&mask))
    }
}

fn words(bytes: &[u8; 16]) -> [u32; 4] {
    let mut w = [0; 4];
    for (w, b) in w.iter_mut().zip(bytes.chunks_exact(4)) {
        *w = u32::from_ne_bytes([b[0], b[1], b[2], b[3]]);
    }
    w
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_holds_each_length_that_the_contract_grants() {
        let policy: Config = "every-n".parse().expect("a policy");
        for (least, largest) in [(1000, 25_000), (1700, 300_000), (1000, 1000), (7777, 7777)] {
            let options = Options {
                hold_min: Duration::from_micros(least),
                hold_max: Duration::from_micros(largest),
                ..Options::new("eth0", policy)
            };
            options.check().expect("within their ranges");
            let classes = options.classes();
            assert!(classes.is_sorted_by(|a, b| a < b), "{classes:?}");
            assert!(classes.len() <= sys::AW_CLASSES as usize, "{classes:?}");
            assert!(classes.contains(&sys::AW_HOLD_MIN_US));
            assert!(options.flow().holds().iter().all(|it| classes.contains(it)));
            let raw = options.to_bpf(1, sys::AW_LINK_ETHERNET, false);
            let used = raw.classes as usize;
            assert_eq!(raw.class_us[0], 0);
            assert_eq!(raw.class_us[1..used], classes);
            assert!(
                raw.class_us[used..]
                    .iter()
                    .all(|it| *it == sys::AW_CLASS_UNUSED)
            );
        }
    }
}
