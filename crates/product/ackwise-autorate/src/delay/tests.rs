//! Tests of the programs on packets that are made here; nothing is sent.

use std::thread::sleep;
use std::time::Duration;

use ackwise_netdev::packet_socket::Destination;
use ackwise_testbed::{Netns, alone};
use aya::programs::{SchedClassifier, TestRun, TestRunOptions};
use nix::sys::socket::MsgFlags;

use super::*;

const NEAR: [u8; 4] = [10, 0, 0, 1];
const FAR: [u8; 4] = [10, 0, 0, 2];
/// The bytes between a frame's addresses and its IP header.
const PLAIN: &[u8] = &[8, 0];
const TAGS: &[u8] = &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 7, 8, 0];
/// Tags of VLANs 5 and 7, and one that has a priority only.
const VLAN_5: &[u8] = &[0x81, 0, 0, 5, 8, 0];
const VLAN_7: &[u8] = &[0x81, 0, 0, 7, 8, 0];
const PRIORITY: &[u8] = &[0x81, 0, 0xe0, 0, 8, 0];
const PPPOE: &[u8] = &[0x88, 0x64, 0x11, 0, 0, 1, 0, 82, 0, 0x21];

/// The object, loaded but not attached.
struct Programs(Ebpf);

/// A segment of the only connection.
#[derive(Debug, Clone, Copy)]
struct Segment {
    seq: u32,
    ack: u32,
    tsval: u32,
    tsecr: u32,
    payload: usize,
}

fn frame(leaves: bool, link: &[u8], segment: Segment) -> Vec<u8> {
    let (from, to) = if leaves { (NEAR, FAR) } else { (FAR, NEAR) };
    let ports: [u16; 2] = if leaves { [1000, 80] } else { [80, 1000] };
    let total = (20 + 32 + segment.payload) as u16;
    let mut frame = vec![0; 12];
    frame.extend(link);
    frame.extend([0x45, 0]);
    frame.extend(total.to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    frame.extend(from);
    frame.extend(to);
    ports
        .iter()
        .for_each(|port| frame.extend(port.to_be_bytes()));
    frame.extend(segment.seq.to_be_bytes());
    frame.extend(segment.ack.to_be_bytes());
    // ACK, a window, and timestamps after two NOPs.
    frame.extend([0x80, 0x10, 0x20, 0, 0, 0, 0, 0, 1, 1, 8, 10]);
    frame.extend(segment.tsval.to_be_bytes());
    frame.extend(segment.tsecr.to_be_bytes());
    frame.resize(frame.len() + segment.payload, 0);
    frame
}

impl Programs {
    fn load() -> Self {
        // SAFETY: no arguments, cannot fail.
        let user = unsafe { libc::geteuid() };
        assert_eq!(user, 0, "this test loads BPF programs: run it as root");
        let mut bpf = super::load(&Interface::find("lo").unwrap(), 0).unwrap();
        for name in ["ackwise_delay_out", "ackwise_delay_in"] {
            let program = bpf.program_mut(name).unwrap();
            let program: &mut SchedClassifier = program.try_into().unwrap();
            program.load().unwrap();
        }
        Self(bpf)
    }

    fn run(&self, name: &str, frame: &[u8]) {
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        let program: &SchedClassifier = self.0.program(name).unwrap().try_into().unwrap();
        let verdict = program.test_run(options).unwrap().return_value;
        assert_eq!(verdict as i32, -1, "TC_ACT_UNSPEC");
    }

    fn leaves(&self, link: &[u8], segment: Segment) {
        self.run("ackwise_delay_out", &frame(true, link, segment));
    }

    fn comes(&self, link: &[u8], segment: Segment) {
        self.run("ackwise_delay_in", &frame(false, link, segment));
    }

    /// The number of samples since the last call, and the wait of the one that counts, µs.
    fn samples(&mut self) -> (u64, Option<u64>) {
        let map = self.0.map_mut("samples").unwrap();
        let mut map: PerCpuArray<_, sys::aw_delay_sample> = map.try_into().unwrap();
        let values = map.get(&0, 0).unwrap();
        let fresh: Vec<_> = values.iter().map(|_| Default::default()).collect();
        map.set(0, PerCpuValues::try_from(fresh).unwrap(), 0)
            .unwrap();
        let seen = || values.iter().filter(|one| one.count > 0);
        (
            seen().map(|one| one.count).sum(),
            seen().map(|one| one.waited_us).min(),
        )
    }
}

/// Milliseconds by the clock that the programs use.
fn now_ms() -> u32 {
    (ackwise_netdev::clock::monotonic_ns() / 1_000_000) as u32
}

/// Outgoing data are answered, with any link header.
#[test]
fn data_are_timed_behind_tags_and_pppoe() {
    for link in [PLAIN, TAGS, PPPOE] {
        let mut programs = Programs::load();
        for n in 0..3 {
            let seq = 1 + 1000 * n;
            programs.leaves(
                link,
                Segment {
                    seq,
                    ack: 1,
                    tsval: n,
                    tsecr: 0,
                    payload: 1000,
                },
            );
            sleep(Duration::from_millis(2));
            programs.comes(
                link,
                Segment {
                    seq: 1,
                    ack: seq + 1000,
                    tsval: now_ms(),
                    tsecr: n,
                    payload: 0,
                },
            );
        }
        // The first round trip says nothing.
        assert_eq!(programs.samples().0, 2, "{link:02x?}");
    }
}

/// Segment number `n` of an upload of 1000 bytes each.
fn data_of(n: u32) -> Segment {
    Segment {
        seq: 1 + 1000 * n,
        ack: 1,
        tsval: n,
        tsecr: 0,
        payload: 1000,
    }
}

/// The ACK that ends where segment number `n` ends.
fn ack_of(n: u32) -> Segment {
    Segment {
        seq: 1,
        ack: 1001 + 1000 * n,
        tsval: now_ms(),
        tsecr: n,
        payload: 0,
    }
}

/// Whether one of these rounds, which have numbers, is timed. A round is not if the machine is so
/// busy that the receiver's timer might have answered.
fn is_timed(mut round: impl FnMut(u32) -> bool) -> bool {
    (0..30).any(&mut round)
}

/// Networks in two VLANs may have the same addresses.
#[test]
fn equal_connections_in_two_vlans_are_two() {
    for other in [VLAN_7, PLAIN, TAGS, PRIORITY] {
        let mut programs = Programs::load();
        let timed = is_timed(|n| {
            programs.leaves(VLAN_5, data_of(n));
            // Neither an ACK of another connection nor its data have to do with these data.
            programs.leaves(other, data_of(n));
            programs.comes(other, ack_of(n));
            programs.samples();
            programs.comes(VLAN_5, ack_of(n));
            programs.samples().0 > 0
        });
        assert!(timed, "{other:02x?}");
    }
}

#[test]
fn a_priority_is_no_vlan() {
    let mut programs = Programs::load();
    assert!(is_timed(|n| {
        programs.leaves(PLAIN, data_of(n));
        programs.comes(PRIORITY, ack_of(n));
        programs.samples().0 > 0
    }));
}

/// Above a long queue each probe begins with the first segment of a pair, and the receiver answers
/// the second one.
#[test]
fn pairs_are_timed_although_probes_are_far_apart() {
    let mut programs = Programs::load();
    let mut samples = 0;
    for pair in 0..6 {
        programs.leaves(PLAIN, data_of(2 * pair));
        programs.leaves(PLAIN, data_of(2 * pair + 1));
        sleep(Duration::from_millis(200));
        programs.comes(PLAIN, ack_of(2 * pair + 1));
        samples += programs.samples().0;
    }
    // The first answer says nothing, and after it every second pair is timed at least.
    assert!(samples >= 2, "{samples}");
}

/// The length of a packet of Linux's BIG TCP is 0. It is not read, and the others are still timed.
#[test]
fn a_packet_of_unknown_length_ends_no_probe() {
    let mut programs = Programs::load();
    assert!(is_timed(|n| {
        programs.leaves(PLAIN, data_of(n));
        let mut long = frame(true, PLAIN, data_of(n + 1));
        long[16..18].fill(0);
        programs.run("ackwise_delay_out", &long);
        programs.comes(PLAIN, ack_of(n));
        programs.samples().0 > 0
    }));
}

/// Where the kernel has put the tag of a VLAN into a departing frame, the network header is already
/// the one behind it.
#[test]
fn tagged_frames_are_timed_as_the_kernel_sends_them() {
    let _alone = alone();
    let (near, far) = (Netns::new(), Netns::new());
    near.wire("near0", &far, "far0");
    let mut delay = near.run(|| {
        let interface = Interface::find("near0").unwrap();
        Delay::behind_qdisc(&interface, None).unwrap()
    });
    let send = |from: &Netns, name: &str, frame: &[u8]| {
        from.run(|| {
            let to = Destination {
                interface: Interface::find(name).unwrap().index,
                protocol: u16::from_ne_bytes([frame[12], frame[13]]),
            };
            let socket = packet_socket::open(Layer::Link).unwrap();
            packet_socket::send(&socket, to, frame, None, MsgFlags::empty()).unwrap();
        });
    };
    for (first, link) in [(0, PLAIN), (100, VLAN_5), (200, TAGS)] {
        let timed = is_timed(|n| {
            let n = first + n;
            send(&near, "near0", &frame(true, link, data_of(n)));
            send(&far, "far0", &frame(false, link, ack_of(n)));
            delay.sample().unwrap().is_some()
        });
        assert!(timed, "{link:02x?}");
    }
}

/// A download whose data arrive every few milliseconds and echo the newest ACK.
struct Download {
    programs: Programs,
    seq: u32,
    stamp: u32,
    /// How far the far clock is ahead of ours, ms.
    ahead_ms: u32,
}

impl Download {
    fn new() -> Self {
        Self::ahead(123_456)
    }

    fn ahead(ahead_ms: u32) -> Self {
        Self {
            programs: Programs::load(),
            seq: 1,
            stamp: 1,
            ahead_ms,
        }
    }

    fn data(&mut self, tsecr: u32) {
        let segment = Segment {
            seq: self.seq,
            ack: 1,
            tsval: now_ms().wrapping_add(self.ahead_ms),
            tsecr,
            payload: 1000,
        };
        self.programs.comes(PLAIN, segment);
        self.seq += 1000;
    }

    /// An ACK leaves with a timestamp of its own.
    fn ack_leaves(&mut self) {
        self.stamp += 1;
        let segment = Segment {
            seq: 1,
            ack: self.seq,
            tsval: self.stamp,
            tsecr: 0,
            payload: 0,
        };
        self.programs.leaves(PLAIN, segment);
    }

    /// An ACK leaves, takes `way_ms` to arrive, and the data from before and after its arrival come
    /// at once.
    fn ack(&mut self, way_ms: u64) {
        self.ack_leaves();
        sleep(Duration::from_millis(way_ms));
        self.data(self.stamp - 1);
        self.data(self.stamp);
    }
}

/// Only the waits of a download's ACKs are reported, and only once the far clock is known.
#[test]
fn acks_are_timed_by_the_data_that_echo_them() {
    times_acks(Download::new());
}

/// The difference of the two clocks may be any number. Here it reaches 2^31 µs while an ACK waits.
#[test]
fn the_difference_of_two_clocks_wraps() {
    times_acks(Download::ahead(2_147_433));
}

fn times_acks(mut download: Download) {
    for _ in 0..5 {
        download.ack(1);
    }
    assert_eq!(download.programs.samples().0, 0, "the clock is not known");
    sleep(Duration::from_millis(1100));
    download.data(download.stamp);
    for _ in 0..5 {
        download.ack(1);
    }
    let (count, waited) = download.programs.samples();
    assert!(count >= 1 && waited.unwrap() < 20_000, "{count} {waited:?}");
    // If the test is delayed, the wait gets longer, never shorter.
    sleep(Duration::from_millis(30));
    download.ack(300);
    let (count, waited) = download.programs.samples();
    assert_eq!(count, 1);
    assert!(waited.unwrap() > 250_000, "{waited:?}");
}

/// While a machine sleeps its clock stops and the far one continues: no ACK has waited that long.
#[test]
fn a_clock_that_jumps_is_no_wait() {
    let mut download = Download::new();
    download.ack(1);
    sleep(Duration::from_millis(1100));
    download.data(download.stamp);
    for _ in 0..3 {
        sleep(Duration::from_millis(30));
        download.ack(1);
    }
    assert!(download.programs.samples().0 >= 1);
    download.ahead_ms += 60_000;
    for _ in 0..5 {
        sleep(Duration::from_millis(30));
        download.ack(1);
        let (_, waited) = download.programs.samples();
        assert!(waited.is_none_or(|us| us < 1_000_000), "{waited:?}");
    }
}

/// A sender that has nothing to send for a while says nothing about the path.
#[test]
fn a_sender_that_pauses_shows_no_wait() {
    let mut download = Download::new();
    download.ack(1);
    sleep(Duration::from_millis(1100));
    download.data(download.stamp);
    download.programs.samples();
    for _ in 0..3 {
        download.ack_leaves();
        sleep(Duration::from_millis(150));
        download.data(download.stamp);
    }
    assert_eq!(download.programs.samples(), (0, None));
}
