//! The queue disciplines of an interface: reading them, replacing the root by the kernel's cake,
//! and restoring it.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::netlink::{
    Netlink, TC_H_CLSACT, TC_H_ROOT, TCA_KIND, TCA_OPTIONS, TCA_STATS_QUEUE, TCA_STATS2, TCMSG,
    find_attribute, push_attribute, push_kind, tcmsg, u16_at, u32_at,
};

/// The handle of a root that ackwise has set (`ac40:` in the output of tc). The kernel itself
/// allocates handles from `8001:` on, so a root with this one is ours.
pub const HANDLE: u32 = 0xac40_0000;

/// The priority (`skb->priority`) that selects the video tin of ackwise's cake: the cake's handle,
/// and the number of the tin in the order bulk, best effort, video, voice.
pub const VIDEO_TIN: u32 = HANDLE | 3;

/// The rate from which cake is to assume a longer round trip, bit/s.
const LONG_RTT_MIN_BPS: u64 = 2_000_000;

// include/uapi/linux/pkt_sched.h
const CAKE_DIFFSERV_DIFFSERV4: u32 = 1;

/// Queue disciplines without classes and without a rate, for which the kernel lists every option in
/// the form in which it accepts it. Such a root can be restored as it was.
const RESTORABLE: [&str; 7] = [
    "bfifo",
    "codel",
    "fq",
    "fq_codel",
    "pfifo",
    "pfifo_fast",
    "sfq",
];

/// CoDel's times among the options of a kind: `TCA_*_TARGET`, `_INTERVAL` and `_CE_THRESHOLD`. The
/// kernel keeps them in units of 1024 ns (codel.h, CODEL_SHIFT) and lists them in microseconds,
/// rounded down.
const CODEL_TIMES: [(&str, [u16; 3]); 2] = [("codel", [1, 3, 5]), ("fq_codel", [1, 3, 7])];

// include/uapi/linux/pkt_sched.h
const TCA_CAKE_BASE_RATE64: u16 = 2;
const TCA_CAKE_DIFFSERV_MODE: u16 = 3;
const TCA_CAKE_OVERHEAD: u16 = 6;
const TCA_CAKE_RTT: u16 = 7;
const TCA_CAKE_TARGET: u16 = 8;
const TCA_CAKE_ACK_FILTER: u16 = 16;

/// A queue discipline as the kernel lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Qdisc {
    /// The kind, for instance `fq_codel`.
    pub kind: String,
    /// The handle; 0 if the kernel has created it by itself.
    pub handle: u32,
    /// The handle of the parent class; see [`Qdisc::is_root`].
    pub parent: u32,
    /// The value of `TCA_OPTIONS`; empty if there is none.
    pub options: Vec<u8>,
}

/// Which ACKs cake removes from its queue (tc-cake(8)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u32)]
pub enum CakeFilter {
    /// `no-ack-filter`
    None = 0,
    /// `ack-filter`
    Filter = 1,
    /// `ack-filter-aggressive`
    Aggressive = 2,
}

impl CakeFilter {
    const ALL: [Self; 3] = [Self::None, Self::Filter, Self::Aggressive];
}

/// The options of a cake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cake {
    /// The shaped rate, bits per second.
    pub rate_bps: u64,
    /// Bytes that each IP packet costs on the link beyond itself; `None` uses the device's value.
    pub overhead: Option<i32>,
    /// Which ACKs it removes.
    pub filter: CakeFilter,
}

/// A root that ackwise has replaced, with everything needed to restore it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaced {
    /// The index of the interface.
    pub index: u32,
    /// The previous root. An interface that is down may have had none.
    pub found: Option<Qdisc>,
}

/// What [`Replaced::restore`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreOutcome {
    /// The previous root is restored.
    Restored,
    /// Somebody else has changed the root, or the interface is gone. Nothing was changed.
    NotOurs,
}

impl Qdisc {
    /// Returns whether it is the root of its interface.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.parent == TC_H_ROOT
    }

    /// Returns whether the kernel has created it by itself: `mq`, `noqueue` or the kind in
    /// `net.core.default_qdisc`, without options.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.handle == 0
    }

    /// Returns whether ackwise has set it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.is_root() && self.handle == HANDLE
    }

    /// Returns whether its kind can be restored with the options that the kernel lists.
    #[must_use]
    pub fn is_restorable(&self) -> bool {
        self.is_default() || RESTORABLE.contains(&self.kind.as_str())
    }

    /// Returns options that reproduce what the kernel has listed. One of CoDel's times would come
    /// out a unit shorter if set as listed; with an extra microsecond it is the same.
    fn options_to_restore(&self) -> Vec<u8> {
        let times = CODEL_TIMES.iter().find(|(kind, _)| *kind == self.kind);
        let mut options = self.options.clone();
        let mut at = 0;
        while let (Some(length), Some(number)) = (u16_at(&options, at), u16_at(&options, at + 2)) {
            let is_time = times.is_some_and(|(_, numbers)| numbers.contains(&number));
            if let (true, Some(us)) = (is_time, u32_at(&options, at + 4)) {
                options[at + 4..at + 8].copy_from_slice(&us.saturating_add(1).to_ne_bytes());
            }
            at += usize::from(length.max(4)).next_multiple_of(4);
        }
        options
    }

    /// Returns the rate of a shaping cake, bits per second.
    #[must_use]
    pub fn cake_rate_bps(&self) -> Option<u64> {
        let value = find_attribute(&self.options, TCA_CAKE_BASE_RATE64)?;
        let bytes_per_s = u64::from_ne_bytes(value.try_into().ok()?);
        (self.kind == "cake" && bytes_per_s > 0).then(|| bytes_per_s.saturating_mul(8))
    }

    /// Returns which ACKs a cake removes.
    #[must_use]
    pub fn cake_filter(&self) -> Option<CakeFilter> {
        let value = find_attribute(&self.options, TCA_CAKE_ACK_FILTER)?;
        let number = u32::from_ne_bytes(value.try_into().ok()?);
        let known = CakeFilter::ALL.into_iter().find(|it| *it as u32 == number);
        known.filter(|_| self.kind == "cake")
    }
}

impl Cake {
    fn options(&self) -> Vec<u8> {
        let mut options = Vec::new();
        push_rate(&mut options, self.rate_bps);
        if let Some(overhead) = self.overhead {
            push_attribute(&mut options, TCA_CAKE_OVERHEAD, &overhead.to_ne_bytes());
        }
        // With the tin that ACKs can be assigned to (`VIDEO_TIN`).
        let tins = CAKE_DIFFSERV_DIFFSERV4.to_ne_bytes();
        push_attribute(&mut options, TCA_CAKE_DIFFSERV_MODE, &tins);
        let filter = (self.filter as u32).to_ne_bytes();
        push_attribute(&mut options, TCA_CAKE_ACK_FILTER, &filter);
        options
    }
}

impl Replaced {
    /// Restores the previous root, if the current one is still ackwise's.
    ///
    /// # Errors
    /// If the kernel refuses, for instance because a capability is missing.
    pub fn restore(&self, netlink: &mut Netlink) -> io::Result<RestoreOutcome> {
        let now = netlink.qdiscs(self.index)?;
        if !now.iter().any(Qdisc::is_ours) {
            return Ok(RestoreOutcome::NotOurs);
        }
        let done = match &self.found {
            Some(found) if !found.is_default() => {
                let mut root = found.clone();
                root.options = found.options_to_restore();
                netlink.replace_root(self.index, &root)
            }
            // Without a root the kernel recreates its own.
            _ => netlink.delete_root(self.index, HANDLE),
        };
        match done {
            Ok(()) => Ok(RestoreOutcome::Restored),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(RestoreOutcome::NotOurs),
            Err(error) => Err(error),
        }
    }
}

/// The root queue discipline of an interface and its counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// The queue discipline.
    pub qdisc: Qdisc,
    /// The bytes that wait in it.
    pub backlog_bytes: u32,
    /// The packets that it dropped, including those removed by an ACK filter.
    pub drops: u32,
}

impl Netlink {
    /// Returns the root of the interface with this index; `None` if it has none, or is gone.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn root(&mut self, index: u32) -> io::Result<Option<Root>> {
        // The answer to a request for a single one is also sent to everybody who listens for
        // changes.
        let every = tcmsg(0, 0, 0);
        self.dump(
            libc::RTM_GETQDISC,
            &every,
            |found: &mut Option<_>, kind, body| {
                let is_root = u32_at(body, 4) == Some(index) && u32_at(body, 12) == Some(TC_H_ROOT);
                if kind == libc::RTM_NEWQDISC && is_root {
                    *found = parse(body).map(|qdisc| Root {
                        qdisc,
                        backlog_bytes: queue_stat(body, 4),
                        drops: queue_stat(body, 8),
                    });
                }
            },
        )
    }

    /// Changes only the rate of the cake that is the root and has the handle [`HANDLE`], and the round
    /// trip that it assumes. No packet is lost, and any other root stays as it is.
    ///
    /// # Errors
    /// If the root is another one, there is no such interface, or a capability is missing.
    pub fn change_cake_rate(&mut self, index: u32, rate_bps: u64) -> io::Result<()> {
        let mut body = tcmsg(index, HANDLE, TC_H_ROOT);
        push_kind(&mut body, "cake");
        let mut options = Vec::new();
        push_rate(&mut options, rate_bps);
        push_attribute(&mut body, TCA_OPTIONS, &options);
        // With neither NLM_F_CREATE nor NLM_F_REPLACE nothing is created.
        self.acknowledged(libc::RTM_NEWQDISC, 0, &body)
    }

    /// Returns the queue disciplines of the interface with this index, without clsact and ingress,
    /// which hold no packets.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn qdiscs(&mut self, index: u32) -> io::Result<Vec<Qdisc>> {
        let every = tcmsg(0, 0, 0);
        self.dump(
            libc::RTM_GETQDISC,
            &every,
            |found: &mut Vec<_>, kind, body| {
                if kind == libc::RTM_NEWQDISC && u32_at(body, 4) == Some(index) {
                    found.extend(parse(body));
                }
            },
        )
    }

    /// Counts the filters of the queue discipline with this handle.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn filters_of(&mut self, index: u32, handle: u32) -> io::Result<usize> {
        self.count_filters(&tcmsg(index, 0, handle))
    }

    /// Counts the filters that match the given `tcmsg`.
    pub(crate) fn count_filters(&mut self, request: &[u8]) -> io::Result<usize> {
        self.dump(libc::RTM_GETTFILTER, request, |filters, kind, _| {
            *filters += usize::from(kind == libc::RTM_NEWTFILTER);
        })
    }

    /// Replaces the root by a cake with the handle [`HANDLE`].
    ///
    /// # Errors
    /// If the kernel refuses. `NotFound` means that it has no cake.
    pub fn replace_root_by_cake(&mut self, index: u32, cake: &Cake) -> io::Result<()> {
        let root = Qdisc {
            kind: "cake".to_owned(),
            handle: HANDLE,
            parent: TC_H_ROOT,
            options: cake.options(),
        };
        self.replace_root(index, &root)
    }

    /// Returns whether the kernel has cake, without changing anything: the request has an option of
    /// the wrong length, which the kernel rejects only if it has cake. Needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// If a capability is missing, or there is no such interface.
    pub fn has_cake(&mut self, index: u32) -> io::Result<bool> {
        let mut options = Vec::new();
        push_attribute(&mut options, TCA_CAKE_BASE_RATE64, &[0]);
        let wrong = Qdisc {
            kind: "cake".to_owned(),
            handle: HANDLE,
            parent: TC_H_ROOT,
            options,
        };
        match self.replace_root(index, &wrong) {
            Ok(()) => Err(io::Error::other("the kernel took a cake with a bad option")),
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOENT) => Ok(false),
                Some(libc::EINVAL | libc::ERANGE) => Ok(true),
                _ => Err(error),
            },
        }
    }

    fn replace_root(&mut self, index: u32, root: &Qdisc) -> io::Result<()> {
        let mut body = tcmsg(index, root.handle, TC_H_ROOT);
        push_kind(&mut body, &root.kind);
        if !root.options.is_empty() {
            push_attribute(&mut body, TCA_OPTIONS, &root.options);
        }
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        self.acknowledged(libc::RTM_NEWQDISC, flags, &body)
    }

    fn delete_root(&mut self, index: u32, handle: u32) -> io::Result<()> {
        self.acknowledged(libc::RTM_DELQDISC, 0, &tcmsg(index, handle, TC_H_ROOT))
    }
}

/// Appends a rate, and the round trip that cake is to assume at that rate.
fn push_rate(options: &mut Vec<u8>, rate_bps: u64) {
    let bytes_per_s = (rate_bps / 8).max(1);
    push_attribute(options, TCA_CAKE_BASE_RATE64, &bytes_per_s.to_ne_bytes());
    let us = assumed_rtt(rate_bps).as_micros() as u32;
    push_attribute(options, TCA_CAKE_RTT, &us.to_ne_bytes());
    push_attribute(options, TCA_CAKE_TARGET, &(us / 20).to_ne_bytes());
}

/// The round trip that cake is to assume: CoDel waits for so long before it drops, and its target
/// is a twentieth of it, as with `tc`'s `rtt`. 100 ms is cake's default. At higher rates a sender
/// has more in flight, and recovers from a drop for longer, so the interval of the default leaves
/// the link idle (docs/decisions/0049-cake-rtt.md).
fn assumed_rtt(rate_bps: u64) -> Duration {
    match rate_bps {
        ..LONG_RTT_MIN_BPS => Duration::from_millis(100),
        _ => Duration::from_millis(300),
    }
}

/// A word of `struct gnet_stats_queue` in a message about a queue discipline; 0 if it is missing.
fn queue_stat(message: &[u8], at: usize) -> u32 {
    let word = || {
        let statistics = find_attribute(message.get(TCMSG..)?, TCA_STATS2)?;
        u32_at(find_attribute(statistics, TCA_STATS_QUEUE)?, at)
    };
    word().unwrap_or(0)
}

fn parse(message: &[u8]) -> Option<Qdisc> {
    let (handle, parent) = (u32_at(message, 8)?, u32_at(message, 12)?);
    let attributes = message.get(TCMSG..)?;
    let kind = find_attribute(attributes, TCA_KIND)?;
    let kind = std::str::from_utf8(kind.strip_suffix(b"\0")?).ok()?;
    (parent != TC_H_CLSACT).then(|| Qdisc {
        kind: kind.to_owned(),
        handle,
        parent,
        options: find_attribute(attributes, TCA_OPTIONS).map_or_else(Vec::new, <[u8]>::to_vec),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(kind: &str, handle: u32, parent: u32, options: &[u8]) -> Vec<u8> {
        let mut message = tcmsg(5, handle, parent);
        push_kind(&mut message, kind);
        push_attribute(&mut message, TCA_OPTIONS, options);
        message
    }

    #[test]
    fn a_queue_discipline_is_read_and_judged() {
        let root = parse(&listed("fq_codel", 0x8001_0000, TC_H_ROOT, &[1, 2, 3, 4])).unwrap();
        assert_eq!(root.kind, "fq_codel");
        assert_eq!(root.options, [1, 2, 3, 4]);
        assert!(root.is_root() && root.is_restorable() && !root.is_default() && !root.is_ours());
        let own = parse(&listed("mq", 0, TC_H_ROOT, &[])).unwrap();
        assert!(own.is_default() && own.is_restorable());
        let shaper = parse(&listed("htb", 0x1_0000, TC_H_ROOT, &[])).unwrap();
        assert!(!shaper.is_restorable());
        assert_eq!(
            parse(&listed("clsact", 0xffff_0000, TC_H_CLSACT, &[])),
            None
        );
        assert_eq!(parse(&tcmsg(5, 0, TC_H_ROOT)), None);
    }

    #[test]
    fn a_cake_has_the_options_that_it_is_given() {
        let cake = Cake {
            rate_bps: 5_000_000,
            overhead: Some(-4),
            filter: CakeFilter::Aggressive,
        };
        let options = cake.options();
        let value = |kind| find_attribute(&options, kind).unwrap();
        assert_eq!(value(TCA_CAKE_BASE_RATE64), 625_000_u64.to_ne_bytes());
        assert_eq!(value(TCA_CAKE_OVERHEAD), (-4_i32).to_ne_bytes());
        assert_eq!(value(TCA_CAKE_ACK_FILTER), 2_u32.to_ne_bytes());
        assert_eq!(value(TCA_CAKE_RTT), 300_000_u32.to_ne_bytes());
        assert_eq!(value(TCA_CAKE_TARGET), 15_000_u32.to_ne_bytes());
        let slow = Cake {
            rate_bps: LONG_RTT_MIN_BPS - 1,
            ..cake
        };
        let slow = slow.options();
        let value_of_slow = |kind| find_attribute(&slow, kind).unwrap();
        assert_eq!(value_of_slow(TCA_CAKE_RTT), 100_000_u32.to_ne_bytes());
        assert_eq!(value_of_slow(TCA_CAKE_TARGET), 5_000_u32.to_ne_bytes());
        let root = parse(&listed("cake", HANDLE, TC_H_ROOT, &options)).unwrap();
        assert_eq!(root.cake_rate_bps(), Some(5_000_000));
        assert_eq!(root.cake_filter(), Some(CakeFilter::Aggressive));
        assert!(root.is_ours());
        let unlimited = parse(&listed("cake", 0x8001_0000, TC_H_ROOT, &[])).unwrap();
        assert_eq!(unlimited.cake_rate_bps(), None);
        assert_eq!(unlimited.cake_filter(), None);
        // The same number is another option of another kind.
        let other = parse(&listed("fq_codel", 0x8001_0000, TC_H_ROOT, &options)).unwrap();
        assert_eq!(other.cake_filter(), None);
    }

    #[test]
    fn times_of_codel_are_given_back_as_they_were_given_first() {
        let keeps = |us: u64| (us * 1000) >> 10;
        let lists = |units: u64| (units << 10) / 1000;
        for us in [1, 2, 125, 5_000, 7_000, 100_000, 4_000_000_u64] {
            let kept = keeps(us);
            assert_eq!(keeps(lists(kept) + 1), kept, "{us}");
        }
        let mut options = Vec::new();
        push_attribute(&mut options, 2, &1234_u32.to_ne_bytes());
        push_attribute(&mut options, 1, &6999_u32.to_ne_bytes());
        let root = parse(&listed("fq_codel", 0x1_0000, TC_H_ROOT, &options)).unwrap();
        let given = root.options_to_restore();
        assert_eq!(find_attribute(&given, 1).unwrap(), 7000_u32.to_ne_bytes());
        assert_eq!(find_attribute(&given, 2).unwrap(), 1234_u32.to_ne_bytes());
        let other = parse(&listed("sfq", 0x1_0000, TC_H_ROOT, &options)).unwrap();
        assert_eq!(other.options_to_restore(), other.options);
    }

    #[test]
    fn a_record_of_what_was_replaced_is_read_again() {
        let replaced = Replaced {
            index: 7,
            found: parse(&listed("pfifo", 0x8002_0000, TC_H_ROOT, &[9, 0, 0, 0])),
        };
        let text = serde_json::to_string(&replaced).unwrap();
        assert_eq!(serde_json::from_str::<Replaced>(&text).unwrap(), replaced);
    }
}
