//! The gateway without I/O and without a clock: what waits, and what leaves when.

use ackwise_policy::LinkKind;
use ackwise_queue::{
    Departure, Discipline, Link, LinkStats, Nanos, QueueConfig, QueueDiscipline, QueueStats,
    Verdict,
};

use crate::config::{self, Config};
use crate::frame::FrameBuf;
use crate::stats::Amount;

/// The length of an Ethernet header with two VLAN tags, plus that of PPPoE.
const LINK_HEADERS: usize = 14 + 8 + 8;
/// Packets longer than Ethernet's count as full-sized only once one is seen: an MTU may be far
/// longer than what is sent.
const ETHERNET_MTU: u32 = 1500;

/// If frames may be longer than this, in bytes, a frame shorter than half the maximum waits in a
/// buffer of its own length. Otherwise a queue full of ACKs would take hundreds of megabytes at the
/// longest MTU.
const LONG_FRAME: usize = 4096;

/// The packets of one direction: taken in, delayed as the rate requires, and released.
///
/// Time is an argument, in nanoseconds. Buffers are recycled: up to an MTU of about 4000 bytes
/// nothing is allocated in steady state.
#[derive(Debug)]
pub struct Core {
    link: Link<FrameBuf, Discipline<FrameBuf>>,
    kind: LinkKind,
    /// Whether the discipline needs parsed headers.
    parses_headers: bool,
    overhead: u32,
    room: usize,
    free: Vec<FrameBuf>,
}

impl Core {
    /// An empty core. `mtu` is the interface's; `seed` seeds RED's random draws and the hash of
    /// flows.
    #[must_use]
    pub fn new(config: &Config, kind: LinkKind, mtu: u32, seed: u64) -> Self {
        let queue = config::queue(config, seed);
        // Without `..`, so that a new discipline must say whether it needs the headers.
        let QueueConfig {
            limit: _,
            red: _,
            fq_codel,
            ack_filter,
            acks_first,
            seed: _,
        } = &queue;
        let mut core = Self {
            parses_headers: ack_filter.is_some() || acks_first.is_some() || fq_codel.is_some(),
            link: Link::with_queue(config::link(config), Discipline::new(&queue)),
            kind,
            overhead: config.overhead,
            room: 0,
            free: Vec::new(),
        };
        core.set_mtu(mtu);
        core
    }

    /// A buffer for one frame.
    pub fn buffer(&mut self) -> FrameBuf {
        self.free
            .pop()
            .unwrap_or_else(|| FrameBuf::with_room(self.room))
    }

    /// Takes a buffer back.
    pub fn reuse(&mut self, mut buffer: FrameBuf) {
        if buffer.room().len() == self.room {
            self.free.push(buffer);
        }
    }

    /// Sets the MTU, which limits the length of frames from now on.
    pub fn set_mtu(&mut self, mtu: u32) {
        let room = mtu as usize + LINK_HEADERS;
        if room != self.room {
            self.room = room;
            self.free.clear();
            let full = mtu.min(ETHERNET_MTU) + self.overhead;
            self.link.set_full_packet(full);
        }
    }

    /// Sets the link's rate, from the next frame on.
    pub fn set_rate(&mut self, bps: u64) {
        self.link.set_rate(bps);
    }

    /// Records that nobody moved frames until `now`. The link was idle meanwhile, and making up for
    /// that would only fill the queue of the modem behind it.
    pub fn stalled_until(&mut self, now: Nanos) {
        self.link.stalled_until(now);
    }

    /// Enqueues a frame of `len` bytes in `buffer` that arrived at `now`.
    pub fn offer(&mut self, buffer: FrameBuf, len: usize, now: Nanos) {
        let mut buffer = self.fitting(buffer, len);
        buffer.filled(len, self.kind, self.parses_headers);
        let charged = buffer.ip_len() + self.overhead;
        if let Verdict::Rejected(buffer, _) = self.link.enqueue(buffer, charged, now) {
            self.reuse(buffer);
        }
    }

    /// Moves the frame to a buffer of its own length if this one is much too long.
    fn fitting(&mut self, mut buffer: FrameBuf, len: usize) -> FrameBuf {
        if self.room <= LONG_FRAME || len >= self.room / 2 {
            return buffer;
        }
        let mut own = FrameBuf::with_room(len);
        own.room().copy_from_slice(&buffer.room()[..len]);
        self.reuse(buffer);
        own
    }

    /// When to call [`release`](Self::release) next; `None` if nothing waits.
    #[must_use]
    pub fn wakeup(&self) -> Option<Nanos> {
        self.link.next_wakeup()
    }

    /// The next frame whose last bit has left by `now`, to be sent now.
    pub fn release(&mut self, now: Nanos) -> Option<FrameBuf> {
        loop {
            match self.link.pop_due(now)? {
                Departure::Delivered { packet, .. } => return Some(packet),
                Departure::Dropped { packet, .. } => self.reuse(packet),
            }
        }
    }

    /// All waiting packets, in the order of the discipline, regardless of the rate and of how long
    /// they have waited. Called at the end.
    pub fn drain(&mut self) -> Vec<FrameBuf> {
        let mut left = Vec::new();
        self.link.end();
        while let Some(due) = self.link.next_wakeup() {
            left.extend(self.release(due));
        }
        left
    }

    /// The link's counters.
    #[must_use]
    pub fn link(&self) -> &LinkStats {
        self.link.stats()
    }

    /// The discipline's counters.
    #[must_use]
    pub fn queue(&self) -> QueueStats {
        self.link.queue().stats()
    }

    /// The number of packets that did not leave: dropped for lack of room, by RED or CoDel, or
    /// because a newer ACK arrived.
    #[must_use]
    pub fn drops(&self) -> u64 {
        let queue = self.queue();
        self.link().dropped_queue + queue.early_drops + queue.forced_drops + queue.filtered
    }

    /// The packets that wait.
    #[must_use]
    pub fn waiting(&self) -> Amount {
        let queue = self.link.queue();
        Amount {
            packets: queue.packets() as u64,
            bytes: queue.bytes(),
        }
    }

    /// RED's average queue length, in its own unit.
    #[must_use]
    pub fn red_average(&self) -> Option<f64> {
        self.link.queue().red_average()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack_v4, tcp_v4};

    const MS: Nanos = 1_000_000;

    fn core(text: &str) -> Core {
        let config = Config::parse("test", text).unwrap();
        Core::new(&config, LinkKind::Ip, 1500, 1)
    }

    fn offer(core: &mut Core, packet: &[u8], now: Nanos) {
        let mut buffer = core.buffer();
        buffer.room()[..packet.len()].copy_from_slice(packet);
        core.offer(buffer, packet.len(), now);
    }

    fn released(core: &mut Core, now: Nanos) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| {
            let frame = core.release(now)?;
            let bytes = frame.bytes().to_vec();
            core.reuse(frame);
            Some(bytes)
        })
        .collect()
    }

    #[test]
    fn packets_leave_at_the_rate_as_they_came() {
        // 60 bytes with the header, at 48 kbit/s: 10 ms each.
        let mut core =
            core("interface = \"x\"\nrate = \"48 kbit/s\"\noverhead = 20\nqueue = \"9 packets\"");
        let packets: Vec<_> = (0..4).map(|n| tcp_v4(1, n, &[])).collect();
        for packet in &packets {
            offer(&mut core, packet, 0);
        }
        assert_eq!(core.wakeup(), Some(10 * MS));
        assert_eq!(released(&mut core, 10 * MS - 1), Vec::<Vec<u8>>::new());
        assert_eq!(released(&mut core, 10 * MS), packets[..1]);
        // Two are late, but none of the rate is lost.
        assert_eq!(released(&mut core, 39 * MS), packets[1..3]);
        assert_eq!(core.wakeup(), Some(40 * MS));
        assert_eq!(core.waiting(), Amount::default());
        assert_eq!(released(&mut core, 40 * MS), packets[3..]);
        assert_eq!(core.wakeup(), None);
    }

    #[test]
    fn a_filter_takes_out_what_a_newer_ack_says() {
        let text = "interface = \"x\"\nrate = \"8 kbit/s\"\n\
                    queue = { limit = \"9 packets\", ack_filter = \"ns2-append\" }";
        let mut core = core(text);
        let data = tcp_v4(5, 6, &[7; 60]);
        offer(&mut core, &data, 0);
        let acks: Vec<_> = (0..5).map(|n| ack_v4(1, 2, 1000 * n, &[])).collect();
        let other = ack_v4(3, 2, 1, &[]);
        for packet in acks.iter().chain([&other]) {
            offer(&mut core, packet, MS);
        }
        assert_eq!(core.waiting().packets, 2);
        let left: Vec<_> = core
            .drain()
            .iter()
            .map(|one| one.bytes().to_vec())
            .collect();
        assert_eq!(left, [data, acks[4].clone(), other]);
        assert_eq!(core.queue().filtered, 4);
    }

    #[test]
    fn equal_flows_in_two_vlans_are_told_apart() {
        let config = Config::parse("test", "interface = \"x\"\nrate = \"8 kbit/s\"").unwrap();
        let mut core = Core::new(&config, LinkKind::Ethernet, 1500, 1);
        let tagged = |tags: &[u16], packet: Vec<u8>| {
            let mut frame = vec![0; 12];
            for tci in tags {
                frame.extend([0x81, 0]);
                frame.extend(tci.to_be_bytes());
            }
            [frame, vec![8, 0], packet].concat()
        };
        // First a packet that is being sent; then ACKs of one connection that wait behind it.
        offer(&mut core, &tagged(&[5], tcp_v4(5, 6, &[7; 1000])), 0);
        for n in 0..30 {
            offer(&mut core, &tagged(&[5], ack_v4(1, 2, 1000 * n, &[])), MS);
        }
        let before = core.queue().filtered;
        assert!(before > 0);
        // Another connection with the same addresses and ports is further ahead.
        for tags in [&[7][..], &[], &[5, 7], &[7, 5]] {
            offer(&mut core, &tagged(tags, ack_v4(1, 2, 90_000, &[])), MS);
        }
        assert_eq!(core.queue().filtered, before);
        // A priority is not a VLAN, and VLAN 0 is no VLAN.
        offer(&mut core, &tagged(&[0xa005], ack_v4(1, 2, 30_000, &[])), MS);
        assert_eq!(core.queue().filtered, before + 1);
        offer(
            &mut core,
            &tagged(&[0xe000, 5], ack_v4(1, 2, 31_000, &[])),
            MS,
        );
        assert_eq!(core.queue().filtered, before + 2);
    }

    #[test]
    fn acks_go_first_and_buffers_go_round() {
        let text = "interface = \"x\"\nrate = \"8 kbit/s\"\n\
                    queue = { limit = \"3 packets\", acks_first = true }";
        let mut core = core(text);
        for round in 0..100_u64 {
            let now = round * 10_000 * MS;
            let data: Vec<_> = (0..5).map(|n| tcp_v4(5, n, &[1; 100])).collect();
            offer(&mut core, &data[0], now);
            offer(&mut core, &data[1], now);
            let ack = tcp_v4(9, 9, &[]);
            offer(&mut core, &ack, now);
            for packet in &data[2..] {
                offer(&mut core, packet, now);
            }
            let left = released(&mut core, now + 9_999 * MS);
            let expected = [&data[0], &ack, &data[1], &data[2]].map(Vec::clone);
            assert_eq!(left, expected);
        }
        assert_eq!(core.link().dropped_queue, 200);
        assert!(core.free.len() <= 5, "{}", core.free.len());
    }

    #[test]
    fn without_a_queue_in_the_file_neither_direction_starves() {
        // 2 ms for an ACK of 40 bytes, 75 ms for a full packet.
        let mut core = core("interface = \"x\"\nrate = \"160 kbit/s\"");
        // Two uploads that always have packets waiting, and ACKs of two downloads that arrive
        // faster than the link carries them. Those of one are duplicates, which no filter may
        // remove.
        let mut sent = [0_usize; 2];
        for ms in 0..20_000_u32 {
            let now = u64::from(ms) * MS;
            if ms % 60 == 0 {
                for port in [21, 22] {
                    offer(&mut core, &ack_v4(port, 80, ms, &[0; 1460]), now);
                }
            }
            offer(&mut core, &ack_v4(11, 443, ms * 3000, &[]), now);
            offer(&mut core, &ack_v4(12, 443, 7, &[]), now);
            for packet in released(&mut core, now) {
                sent[usize::from(packet.len() > 40)] += packet.len();
            }
            assert!(core.waiting().packets < 1_000);
        }
        // 400 kB in total; a quarter is for ACKs while data wait.
        let share = sent[0] as f64 / (sent[0] + sent[1]) as f64;
        assert!(sent[0] + sent[1] > 390_000, "{sent:?}");
        assert!((share - 0.25).abs() < 0.01, "{share}");
        assert!(core.queue().filtered > 10_000);
    }

    #[test]
    fn what_waits_at_the_end_leaves_however_long_it_has_waited() {
        // A data packet takes 120 ms, and CoDel tolerates 180 ms.
        let mut core = core("interface = \"x\"\nrate = \"100 kbit/s\"");
        let data: Vec<_> = (0..30).map(|n| ack_v4(21, 80, n, &[0; 1460])).collect();
        let ack = ack_v4(12, 443, 7, &[]);
        for (ms, packet) in (0..).zip(&data) {
            offer(&mut core, packet, ms * MS);
            // Duplicates, which no filter removes.
            offer(&mut core, &ack, ms * MS);
        }
        let before = released(&mut core, 100 * MS).len();
        let waiting = core.waiting().packets;
        assert!(waiting > 50, "{waiting}");
        let left: Vec<_> = core
            .drain()
            .iter()
            .map(|one| one.bytes().to_vec())
            .collect();
        assert_eq!(before + left.len(), 60);
        assert_eq!((core.queue().early_drops, core.queue().marks), (0, 0));
        assert_eq!(core.waiting(), Amount::default());
        let in_order: Vec<_> = left.iter().filter(|one| one.len() > 40).collect();
        assert!(data.ends_with(&in_order.into_iter().cloned().collect::<Vec<_>>()));
    }

    #[test]
    fn what_waited_while_nobody_moved_frames_leaves_at_the_rate() {
        // A data packet takes 15 ms.
        let mut core = core("interface = \"x\"\nrate = \"800 kbit/s\"");
        for n in 0..100 {
            offer(&mut core, &ack_v4(21, 80, n, &[0; 1460]), 0);
        }
        assert_eq!(released(&mut core, 30 * MS).len(), 2);
        core.stalled_until(5_000 * MS);
        // The packet that was being sent.
        assert_eq!(released(&mut core, 5_000 * MS).len(), 1);
        assert_eq!(released(&mut core, 5_014 * MS).len(), 0);
        assert_eq!(released(&mut core, 5_030 * MS).len(), 2);
        // An empty core is unchanged.
        while let Some(due) = core.wakeup() {
            released(&mut core, due);
        }
        core.stalled_until(20_000 * MS);
        offer(&mut core, &ack_v4(21, 80, 0, &[0; 1460]), 20_001 * MS);
        assert_eq!(core.wakeup(), Some(20_016 * MS));
    }

    #[test]
    fn short_packets_of_a_long_mtu_take_little_memory() {
        for (mtu, most) in [(1500, 1600), (9000, 100), (65_535, 100)] {
            let config = Config::parse("test", "interface = \"x\"\nrate = \"8 kbit/s\"");
            let mut core = Core::new(&config.unwrap(), LinkKind::Ip, mtu, 1);
            let acks: Vec<_> = (0..100).map(|n| ack_v4(1, 2, 7 + n / 50, &[])).collect();
            let long = ack_v4(3, 4, 1, &vec![7; mtu as usize - 40]);
            for packet in acks.iter().chain([&long]) {
                offer(&mut core, packet, 0);
            }
            let mut left = core.drain();
            assert!(left.len() > 50, "{}", left.len());
            let is_long = |frame: &FrameBuf| frame.bytes().len() > 1000;
            assert!(left.iter().any(|it| is_long(it) && it.bytes() == long));
            for frame in left.iter_mut().filter(|it| !is_long(it)) {
                assert!(acks.iter().any(|ack| frame.bytes() == ack));
                assert!(frame.room().len() <= most, "{}", frame.room().len());
            }
            assert!(core.free.len() <= 2);
        }
    }

    #[test]
    fn full_packets_are_as_long_as_the_mtu_has_them() {
        let target_of = |mtu: u32, later: Option<u32>| {
            let config = Config::parse("test", "interface = \"x\"\nrate = \"31 kbit/s\"");
            let mut core = Core::new(&config.unwrap(), LinkKind::Ip, mtu, 1);
            if let Some(mtu) = later {
                core.set_mtu(mtu);
            }
            // 576 bytes take 149 ms; they come every 150 ms, and two or three wait.
            for n in 0..200_u32 {
                let now = u64::from(n) * 150 * MS;
                released(&mut core, now);
                for _ in 0..if n == 0 { 4 } else { 1 } {
                    offer(&mut core, &ack_v4(21, 80, n, &[0; 536]), now);
                }
            }
            core.queue().early_drops
        };
        assert_eq!(target_of(1500, None), 0);
        assert!(target_of(576, None) > 0);
        assert!(target_of(1500, Some(576)) > 0);
        // With a long MTU no packet counts as longer than usual until one arrives.
        assert_eq!(target_of(65_535, Some(9_000)), 0);
    }

    #[test]
    fn what_cannot_be_read_waits_like_all() {
        let text = "interface = \"x\"\nrate = \"8 kbit/s\"\n\
                    queue = { limit = \"50 packets\", ack_filter = \"rfc3449\", acks_first = 4 }";
        let mut core = core(text);
        let packets: Vec<Vec<u8>> = (0..40).map(|n| vec![n as u8; n]).collect();
        for packet in &packets {
            offer(&mut core, packet, 0);
        }
        let left: Vec<_> = core
            .drain()
            .iter()
            .map(|one| one.bytes().to_vec())
            .collect();
        assert_eq!(left, packets);
    }

    #[test]
    fn red_marks_what_can_be_marked() {
        let text = "interface = \"x\"\nrate = \"8 kbit/s\"\n\
                    queue = { limit = \"50 packets\", discipline = \"red\", ecn = true, \
                    min = \"1 packets\", max = \"2 packets\", weight = 1, \
                    max_probability = \"100 %\", mark_limit = \"100 %\" }";
        let mut core = core(text);
        for n in 0..20 {
            let mut packet = tcp_v4(1, n, b"data");
            packet[1] = 2;
            offer(&mut core, &packet, 0);
        }
        let marked = core
            .drain()
            .iter()
            .filter(|one| one.bytes()[1] & 3 == 3)
            .count();
        assert_eq!(marked as u64, core.queue().marks);
        assert!(marked >= 10, "{marked}");
    }
}
