//! ACK congestion control (RFC 5690) between two ends on the running kernel: the sender's sockets
//! detect which ACKs were lost, and tell the receiver's datapath how many segments one ACK may
//! cover.

mod common;

use std::io::{Read, Write};
use std::mem::zeroed;
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use ackwise_datapath::{
    AckBox, AckBoxCounts, AckBoxRules, AckRateCounters, AckRateRequest, AckRateRequester, Datapath,
    Options,
};
use ackwise_headers::{checksum, protocol};
use ackwise_netdev::{AttachMode, AttachOptions, Direction, Order};
use ackwise_policy::AckRate;
use common::cgroup::Cgroup;
use common::peer::{FULL, Peer};
use common::transfer::pattern;
use common::{
    Frame, Pair, SYN, Seg, Wire, alone, eventually, in_virtual_time, ip, ms, no_checksum_offload,
    output, tc,
};

/// The options of a SYN.
const PERMITTED: [u8; 4] = [254, 4, 0x16, 0x3a];
const CAPABLE: [u8; 4] = [254, 4, 0x00, 0xac];

fn asker(cgroup: &Cgroup) -> AckRateRequester {
    AckRateRequester::attach(&cgroup.path, AckRateRequest::CongestionControl)
        .unwrap_or_else(|e| panic!("{e}"))
}

// ---- The sender, whose ACKs come from the test -------------------------------

/// The number of segments that may be outstanding, by the receiver's window.
const WINDOW: u16 = 20;

/// A sender with more data than any test takes, whose window is full.
struct Trace<'a> {
    peer: Peer<'a>,
    asker: &'a AckRateRequester,
    /// The ends of the segments that arrived, as offsets in the stream, in order.
    ends: Vec<u32>,
    /// How many of the segments are acknowledged.
    acked: usize,
}

impl<'a> Trace<'a> {
    fn open(far: &'a Wire, asker: &'a AckRateRequester, syn: &[u8], rto_min: &str) -> Trace<'a> {
        let route = format!("initcwnd {WINDOW} rto_min {rto_min}");
        let mut peer = Peer::connect(far, &route, syn);
        peer.write(80);
        let mut trace = Trace {
            peer,
            asker,
            ends: Vec::new(),
            acked: 0,
        };
        assert_eq!(trace.next(WINDOW.into()), [None; WINDOW as usize]);
        trace
    }

    /// The options of the next segments.
    fn next(&mut self, segments: usize) -> Vec<Option<AckRate>> {
        let frames = self.peer.expect(segments);
        let mut options = Vec::new();
        for frame in &frames {
            let seg = Seg::read(&frame.bytes).expect("a segment");
            assert!(common::checksum_is_right(&frame.bytes));
            let end = self.peer.offset(seg.seq) + seg.payload as u32;
            if self.ends.last().is_none_or(|last| end > *last) {
                self.ends.push(end);
            }
            options.push(AckRate::find(&seg.options));
        }
        options
    }

    /// An ACK of this many segments in total.
    fn ack(&self, segments: usize) -> Seg {
        Seg {
            window: WINDOW * FULL as u16,
            ..self.peer.ack_of(self.ends[segments - 1])
        }
    }

    fn send(&self, frame: &[u8]) {
        self.peer.send(frame);
    }

    /// Sends these ACKs one after the other. The segments that each releases must carry this ratio.
    fn expect(&mut self, acks: &[usize], ratio: Option<u8>) {
        for segments in acks {
            self.send(&self.ack(*segments).frame());
            let new = segments.saturating_sub(self.acked);
            self.acked = self.acked.max(*segments);
            let options = self.next(new);
            assert_eq!(
                options,
                vec![ratio.map(AckRate::Every); new],
                "after ACK {segments}"
            );
        }
    }
}

/// Runs a trace on a sender that permits ACK congestion control; its receiver's SYN has these
/// options.
fn trace(syn: &[u8], test: impl FnOnce(&mut Trace<'_>) + Send) -> AckRateCounters {
    // A slow machine must not cause a timeout.
    trace_with_timeout("60s", syn, test)
}

fn trace_with_timeout(
    rto_min: &str,
    syn: &[u8],
    test: impl FnOnce(&mut Trace<'_>) + Send,
) -> AckRateCounters {
    let _alone = alone();
    Pair::new().run(|_, far| {
        let cgroup = Cgroup::enter();
        let asker = asker(&cgroup);
        let mut trace = Trace::open(far, &asker, syn, rto_min);
        test(&mut trace);
        asker.counters().expect("counters")
    })
}

/// Worked out by hand from RFC 5690 §4.4 and §4.5, as the simulator's sender does it.
#[test]
fn the_ratio_follows_a_trace_by_hand() {
    let counters = trace(&PERMITTED, |trace| {
        // The ACK of 8 is lost: three ACKs after that of 10 show it.
        trace.expect(&[2, 4, 6, 10, 12, 14], None);
        // Each segment carries the ratio until the first that did is acknowledged.
        trace.expect(&[16, 18, 20, 22, 24, 26, 28, 30, 32, 34], Some(4));
        // The receiver has R = 4, and R falls after 20 / (16 - 4) windows.
        trace.expect(&[38, 42, 46], None);
        trace.expect(&[50, 54, 58], Some(3));
    });
    assert_eq!((counters.agreed, counters.lost, counters.asked), (1, 1, 2));
    assert_eq!((counters.acks, counters.skipped), (22, 0));
}

#[test]
fn an_ack_that_says_that_none_is_missing_tells_nothing() {
    let counters = trace(&PERMITTED, |trace| {
        trace.expect(&[2, 4, 6], None);
        let skipped = with_bit(trace.ack(14).frame());
        trace.send(&skipped);
        trace.acked = 14;
        assert_eq!(trace.next(8), [None; 8]);
        trace.expect(&[16, 18, 20, 22, 24], None);
    });
    assert_eq!((counters.lost, counters.asked), (0, 0));
    assert_eq!((counters.acks, counters.skipped), (9, 1));
}

#[test]
fn an_ack_that_comes_late_is_not_lost() {
    let counters = trace(&PERMITTED, |trace| {
        trace.expect(&[2, 4, 6, 10, 12, 8, 14, 16, 18, 20], None);
    });
    assert_eq!((counters.lost, counters.asked), (0, 0));
}

/// Data in the other direction may have carried an ACK.
#[test]
fn lost_data_of_the_other_direction_are_no_lost_acks() {
    let counters = trace(&PERMITTED, |trace| {
        trace.expect(&[2, 4], None);
        for (segments, seq) in [(10, 1001), (12, 1001), (14, 1001), (16, 1001), (18, 1001)] {
            let ack = Seg {
                seq,
                ..trace.ack(segments)
            };
            trace.send(&ack.frame());
            let new = segments - trace.acked;
            trace.acked = segments;
            assert_eq!(trace.next(new), vec![None; new]);
        }
    });
    assert_eq!((counters.lost, counters.asked), (0, 0));
}

/// Segment 5 arrives after 6: a duplicate with a block, and then an ACK of everything.
#[test]
fn a_hole_in_the_data_is_no_lost_ack() {
    let counters = trace(&PERMITTED, |trace| {
        trace.expect(&[2, 4], None);
        let at = |segments: usize| {
            trace
                .peer
                .ack_of(trace.ends[segments - 1])
                .ack
                .to_be_bytes()
        };
        let mut options = vec![1, 1, 5, 10];
        options.extend(at(5));
        options.extend(at(6));
        let duplicate = Seg {
            options,
            ..trace.ack(4)
        };
        trace.send(&duplicate.frame());
        // Segment 5 may be retransmitted meanwhile.
        for segments in [10, 12, 14, 16, 18] {
            trace.send(&trace.ack(segments).frame());
        }
        eventually("all ACKs are looked at", || {
            trace.asker.counters().expect("counters").acks == 8
        });
    });
    assert_eq!((counters.acks, counters.lost, counters.asked), (8, 0, 0));
}

#[test]
fn who_does_not_permit_it_is_told_nothing() {
    for syn in [&[][..], &CAPABLE] {
        let counters = trace(syn, |trace| {
            let answer = AckRate::find(&trace.peer.syn_ack.options);
            assert_eq!(answer, AckRate::find(syn), "answered as it asks");
            trace.expect(&[2, 4, 10, 12, 14, 16, 18, 20], None);
        });
        assert_eq!((counters.agreed, counters.acks, counters.lost), (0, 0, 0));
    }
}

#[test]
fn after_a_timeout_the_ratio_is_two() {
    let counters = trace_with_timeout("1s", &PERMITTED, |trace| {
        trace.expect(&[2, 4, 6, 10, 12, 14], None);
        trace.expect(&[16, 18], Some(4));
        // Nothing arrives any more: the first segment is retransmitted.
        assert_eq!(trace.next(1), [Some(AckRate::Every(2))]);
    });
    assert_eq!((counters.lost, counters.asked), (1, 2));
}

/// The frame of an ACK, with the reserved bit.
fn with_bit(mut frame: Vec<u8>) -> Vec<u8> {
    let l4 = 14 + 20;
    frame[l4 + 12] |= 0x08;
    frame[l4 + 16..l4 + 18].fill(0);
    let sum = checksum::of_segment(&frame[26..34], protocol::TCP, &frame[l4..]);
    frame[l4 + 16..l4 + 18].copy_from_slice(&sum);
    frame
}

// ---- Both ends ---------------------------------------------------------------

/// The form of the packets of a transfer.
#[derive(Clone, Copy)]
enum Packets {
    /// Large packets, cut into segments behind the receiver, which sends one ACK for many.
    Large,
    /// Single segments as on a wire, each acknowledged by the receiver's kernel.
    Segments,
}

/// A sender in the near namespace, and a receiver in the far one. All of it runs on one CPU, since
/// ACKs sent by two CPUs would overtake one another.
struct Ends {
    from: TcpStream,
    to: TcpStream,
    asker: AckRateRequester,
    thinner: Datapath,
    /// The box at the sender's interface.
    ack_box: AckBox,
    sent: usize,
    _cgroup: Cgroup,
}

impl Ends {
    fn connect(pair: &Pair, packets: Packets, listener_knows: bool) -> Ends {
        on_one_cpu();
        pair.far.run(|| {
            ip("addr add 198.18.7.2/24 dev aw1");
            if let Packets::Segments = packets {
                ip("link set aw1 mtu 600 gso_max_segs 1");
                ip("route replace 198.18.7.0/24 dev aw1 quickack 1");
                // Packets in the socket's backlog are acknowledged one by one as well.
                std::fs::write("/proc/sys/net/ipv4/tcp_backlog_ack_defer", "0").expect("sysctl");
            }
        });
        ip("addr add 198.18.7.1/24 dev aw0");
        if let Packets::Segments = packets {
            no_checksum_offload("aw0");
            ip("link set aw0 mtu 600 gso_max_segs 1");
            // The window is small, and so is R.
            ip("route replace 198.18.7.0/24 dev aw0 cwnd lock 60");
        }
        let listen = || {
            pair.far
                .run(|| TcpListener::bind("198.18.7.2:80").expect("bind"))
        };
        let early = (!listener_knows).then(listen);
        let cgroup = Cgroup::enter();
        let asker = asker(&cgroup);
        let thinner = pair.far.run(|| {
            let policy = "every-n:n=2,warm=0".parse().expect("a policy");
            let mut options = Options::new("aw1", policy);
            options.obey_ack_rate = true;
            options.hold_max = ms(25);
            options.hold_min = ms(10);
            Datapath::attach(options).unwrap_or_else(|e| panic!("{e}"))
        });
        let ack_box = AckBox::attach(&AttachOptions {
            interface: "aw0",
            direction: Direction::Ingress,
            mode: AttachMode::Auto,
            order: Order::Last,
        })
        .unwrap_or_else(|e| panic!("{e}"));
        let server = early.unwrap_or_else(listen);
        let from = TcpStream::connect("198.18.7.2:80").expect("connect");
        let (to, _) = server.accept().expect("accept");
        to.set_read_timeout(Some(ms(120_000))).expect("a timeout");
        Ends {
            from,
            to,
            asker,
            thinner,
            ack_box,
            sent: 0,
            _cgroup: cgroup,
        }
    }

    fn rules(&mut self, rules: AckBoxRules) {
        self.ack_box.set(rules).expect("the box");
    }

    fn counters(&self) -> AckRateCounters {
        self.asker.counters().expect("counters")
    }

    fn passed(&self) -> AckBoxCounts {
        self.ack_box.counts().expect("the box")
    }

    /// Sends this many bytes, all of which arrive. Returns what happened to the ACKs meanwhile.
    fn send(&mut self, bytes: usize) -> (AckBoxCounts, AckRateCounters) {
        let (boxed, counted) = (self.passed(), self.counters());
        let sent = pattern(self.sent, bytes);
        self.sent += bytes;
        let (from, to) = (&mut self.from, &mut self.to);
        std::thread::scope(|scope| {
            scope.spawn(|| from.write_all(&sent).expect("write"));
            let mut got = vec![0; bytes];
            to.read_exact(&mut got).expect("read");
            assert!(got == sent, "other bytes");
        });
        let (then, now) = (self.passed(), self.counters());
        let acks = AckBoxCounts {
            acks: then.acks - boxed.acks,
            dropped: then.dropped - boxed.dropped,
            skipped: then.skipped - boxed.skipped,
        };
        let found = AckRateCounters {
            lost: now.lost - counted.lost,
            asked: now.asked - counted.asked,
            ..now
        };
        (acks, found)
    }
}

/// Restricts this thread, and those that it starts, to one CPU.
fn on_one_cpu() {
    // SAFETY: all zeroes is an empty set; the kernel reads the given size.
    unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        let size = size_of::<libc::cpu_set_t>();
        assert_eq!(libc::sched_getaffinity(0, size, &raw mut set), 0);
        let first = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &set));
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(first.expect("a CPU"), &mut set);
        assert_eq!(libc::sched_setaffinity(0, size, &raw const set), 0);
    }
}

/// The ratios that were announced, in order.
fn ack_ratios(frames: &[Frame]) -> Vec<u8> {
    let mut ratios = Vec::new();
    for frame in frames {
        let Some(seg) = Seg::read(&frame.bytes).filter(|seg| seg.dport == 80) else {
            continue;
        };
        match AckRate::find(&seg.options) {
            Some(AckRate::Every(ratio)) if ratios.last() != Some(&ratio) => ratios.push(ratio),
            Some(AckRate::Every(_)) | None => {}
            Some(AckRate::ControlPermitted) => assert!(seg.flags & SYN != 0),
            Some(other) => panic!("{other:?}"),
        }
    }
    ratios
}

const MB: usize = 1_000_000;

/// Linux acknowledges a packet with one ACK, however many segments it has. The receiver announces
/// that, and none counts as lost. If a box clears the bit, they count.
#[test]
fn an_ack_that_the_receiver_skips_is_not_lost() {
    let _alone = alone();
    let pair = Pair::new();
    pair.run(|_, _| {
        let mut ends = Ends::connect(&pair, Packets::Large, true);
        let (acks, found) = ends.send(8 * MB);
        assert!(acks.skipped > 10, "{acks:?}");
        assert_eq!((found.agreed, found.lost, found.asked), (2, 0, 0));
        assert!(found.acks > 10 && found.skipped > 0, "{found:?}");
        let stats = ends.thinner.stats().expect("stats");
        assert_eq!(stats.acks_skipped, ends.passed().skipped);
        ends.rules(AckBoxRules {
            clear: true,
            ..AckBoxRules::default()
        });
        let (_, found) = ends.send(8 * MB);
        assert!(found.lost > 0 && found.asked > 0, "{found:?}");
        ends.thinner.detach().expect("detach");
    });
}

#[test]
fn lost_acks_make_the_receiver_send_fewer() {
    let _alone = alone();
    let pair = Pair::new();
    pair.run(|_, far| {
        let mut ends = Ends::connect(&pair, Packets::Segments, true);
        let ratios = |wanted: &dyn Fn(&[u8]) -> bool, ends: &mut Ends| {
            let mut all: Vec<u8> = Vec::new();
            eventually("the ratio that is waited for", || {
                ends.send(MB / 4);
                all.extend(ack_ratios(&far.drain(ms(0))));
                wanted(&all)
            });
            all
        };
        let (all, found) = ends.send(2 * MB);
        assert_eq!((found.lost, found.asked), (0, 0), "{all:?}");
        ends.rules(AckBoxRules {
            drop_every: 10,
            ..AckBoxRules::default()
        });
        let up = ratios(&|all| all.iter().any(|ratio| *ratio >= 8), &mut ends);
        assert_eq!(up[0], 4, "{up:?}");
        let (fewer, found) = ends.send(2 * MB);
        let dropped = ends.passed().dropped;
        assert!(ends.counters().lost <= dropped, "{dropped}: {found:?}");
        assert!(10 * fewer.acks < 8 * all.acks, "{fewer:?} after {all:?}");
        ends.rules(AckBoxRules::default());
        let before = ends.counters().lost;
        let down = ratios(&|all| all.last() == Some(&2), &mut ends);
        assert!(down.len() > 3, "by one at a time: {down:?}");
        // Some of the last dropped ACKs may still count.
        assert!(ends.counters().lost <= before + 3);
        ends.thinner.detach().expect("detach");
    });
}

#[test]
fn a_listener_that_does_not_know_it_changes_nothing() {
    let _alone = alone();
    let pair = Pair::new();
    pair.run(|_, far| {
        let mut ends = Ends::connect(&pair, Packets::Large, false);
        ends.rules(AckBoxRules {
            drop_every: 10,
            ..AckBoxRules::default()
        });
        let (acks, found) = ends.send(4 * MB);
        assert!(acks.dropped > 0, "{acks:?}");
        assert_eq!(acks.skipped, 0, "nobody agreed on the bit");
        assert_eq!((found.agreed, found.acks, found.segments), (0, 0, 0));
        assert!(ack_ratios(&far.drain(ms(50))).is_empty());
        ends.thinner.detach().expect("detach");
    });
}

// ---- In virtual time ---------------------------------------------------------

/// The result of a transfer.
#[derive(Debug)]
struct TransferResult {
    mbit_s: f64,
    /// Packets that the receiver's interface, whose queue is short, was to send.
    acks: u64,
    dropped: u64,
    lost: u64,
    requests: u64,
}

/// The first number after this word.
fn number(text: &str, word: &str) -> u64 {
    let rest = &text[text.find(word).expect("the word") + word.len()..];
    let digits: String = rest
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().expect("a number")
}

/// 30 MB over 20 Mbit/s and 40 ms, whose ACKs have 100 kbit/s and a queue of 20.
fn over_a_thin_uplink(control: bool) -> TransferResult {
    const BYTES: usize = 30 * MB;
    let pair = Pair::new();
    pair.run(|_, _| {
        ip("addr add 198.18.7.1/24 dev aw0");
        ip("link set aw0 gso_max_segs 1");
        tc("qdisc add dev aw0 root netem rate 20mbit delay 20ms limit 200");
        pair.far.run(|| {
            ip("addr add 198.18.7.2/24 dev aw1");
            tc("qdisc add dev aw1 root netem rate 100kbit delay 20ms limit 20");
        });
        let cgroup = Cgroup::enter();
        let asker = control.then(|| asker(&cgroup));
        let thinner = control.then(|| {
            pair.far.run(|| {
                let policy = "every-n:n=2".parse().expect("a policy");
                let mut options = Options::new("aw1", policy);
                options.obey_ack_rate = true;
                Datapath::attach(options).unwrap_or_else(|e| panic!("{e}"))
            })
        });
        let server = pair
            .far
            .run(|| TcpListener::bind("198.18.7.2:80").expect("bind"));
        let mut from = TcpStream::connect("198.18.7.2:80").expect("connect");
        let (mut to, _) = server.accept().expect("accept");
        let sent = pattern(0, BYTES);
        let start = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| from.write_all(&sent).expect("write"));
            let mut got = vec![0; BYTES];
            to.read_exact(&mut got).expect("read");
            assert!(got == sent, "other bytes");
        });
        let elapsed = start.elapsed();
        let queue = pair.far.run(|| output("tc", "-s qdisc show dev aw1"));
        let (left, dropped) = (number(&queue, "bytes "), number(&queue, "(dropped "));
        let acks = left + dropped;
        let counters = asker.map(|asker| asker.counters().expect("counters"));
        let counters = counters.unwrap_or_default();
        if let Some(thinner) = thinner {
            thinner.detach().expect("detach");
        }
        TransferResult {
            mbit_s: 8e-6 * BYTES as f64 / elapsed.as_secs_f64(),
            acks,
            dropped,
            lost: counters.lost,
            requests: counters.asked,
        }
    })
}

/// An uplink that drops ACKs makes the sender ask for fewer, and then drops few.
#[test]
fn a_short_queue_of_a_thin_uplink_drops_fewer_acks() {
    in_virtual_time(|| {
        let _alone = alone();
        let without = over_a_thin_uplink(false);
        let with = over_a_thin_uplink(true);
        let each = format!("{without:?}\n{with:?}");
        println!("{each}");
        assert!(without.dropped > 1000, "{each}");
        assert!(with.requests > 2 && with.lost > 2, "{each}");
        assert!(with.acks < without.acks / 2, "{each}");
        assert!(4 * with.dropped < without.dropped, "{each}");
        assert!(with.mbit_s > 0.9 * without.mbit_s, "{each}");
    });
}
