//! The bit that asks for an immediate ACK, between two ends on the running kernel: the sender's
//! datapath sets it in the last packet of a window, and the receiver's lets that ACK pass.

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use ackwise_datapath::{Datapath, Error, Options, Position, Stats};
use common::peer::{FULL, Peer};
use common::transfer::{SEGMENT, Transfer, pattern};
use common::{Frame, Pair, Seg, Wire, alone, eventually, ip, ms};

/// The number of segments of the first flight, by the sender's route.
const FIRST: usize = 6;
/// How long an ACK may be held that is not asked for.
const HOLD: Duration = Duration::from_millis(200);

fn asker(on: bool) -> Datapath {
    let mut options = Options::new("aw0", "none".parse().expect("a policy"));
    options.position = Position::Sender;
    options.ack_request = on;
    Datapath::attach(options).unwrap_or_else(|e| panic!("{e}"))
}

/// Holds each ACK that the contract lets it hold and that is not asked for.
fn receiver(pair: &Pair, obey: bool) -> Datapath {
    pair.far.run(|| {
        let mut options = Options::new("aw1", "every-n:n=256,warm=0".parse().expect("a policy"));
        options.obey_ack_rate = obey;
        options.hold_max = HOLD;
        options.hold_min = HOLD;
        Datapath::attach(options).unwrap_or_else(|e| panic!("{e}"))
    })
}

/// The receiver's kernel acknowledges each segment (`quickack`), so only the datapath withholds.
fn ready(pair: &Pair) -> Transfer {
    Transfer::prepare(pair, FIRST);
    // Otherwise several segments are one packet, and ask together.
    ip("link set aw0 gso_max_segs 1");
    let quick = || ip("route replace 198.18.7.0/24 dev aw1 quickack 1");
    pair.far.run(quick);
    Transfer::connect(pair)
}

/// The congestion window in segments, once everything is acknowledged.
fn window(transfer: &Transfer) -> usize {
    eventually("all is acknowledged", || transfer.info().tcpi_unacked == 0);
    transfer.info().tcpi_snd_cwnd as usize
}

/// The kernel's information once everything is acknowledged. It polls without sleeping, since it is
/// called often.
fn acknowledged(transfer: &Transfer) -> libc::tcp_info {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let info = transfer.info();
        if info.tcpi_unacked == 0 {
            return info;
        }
        assert!(
            Instant::now() < until,
            "two minutes, and {} segments are not acknowledged",
            info.tcpi_unacked
        );
        std::thread::yield_now();
    }
}

fn send(transfer: &mut Transfer, segments: usize) {
    let sent = pattern(0, segments * SEGMENT);
    transfer.from.write_all(&sent).expect("write");
    let mut got = vec![0; sent.len()];
    transfer.to.read_exact(&mut got).expect("read");
    assert_eq!(got, sent);
}

/// Which of the data segments ask, in order of arrival.
fn which_ask(frames: &[Frame]) -> Vec<bool> {
    let data = |frame: &&Frame| {
        Seg::read(&frame.bytes).is_some_and(|seg| seg.sport == 80 && seg.payload > 0)
    };
    let asks = |frame: &Frame| {
        let reserved = frame.bytes[14 + 20 + 12] & 0x0f;
        assert!(matches!(reserved, 0 | 8), "{reserved:#x}: one bit at most");
        assert!(common::checksum_is_right(&frame.bytes));
        reserved == 8
    };
    frames.iter().filter(data).map(asks).collect()
}

fn arrived(far: &Wire, segments: usize) -> Vec<bool> {
    let mut requests = Vec::new();
    eventually("the segments are captured", || {
        requests.extend(which_ask(&far.tcp(ms(1))));
        requests.len() >= segments
    });
    requests
}

#[test]
fn the_last_segment_of_a_window_asks() {
    let _alone = alone();
    let pair = Pair::new();
    pair.run(|_, far| {
        let asker = asker(true);
        let mut transfer = ready(&pair);
        assert_eq!(window(&transfer), FIRST);
        // Fewer segments than the window has: none is the last that it allows.
        send(&mut transfer, FIRST - 1);
        assert_eq!(arrived(far, FIRST - 1), [false; FIRST - 1]);
        let mut requests = 0;
        // An ACK that arrives meanwhile makes room: then none of the segments is the last.
        eventually("three windows that are filled at once", || {
            let mut transfer = Transfer::connect(&pair);
            assert_eq!(window(&transfer), FIRST);
            send(&mut transfer, FIRST);
            let seen = arrived(far, FIRST);
            assert_eq!(seen[..FIRST - 1], [false; FIRST - 1]);
            requests += u64::from(seen[FIRST - 1]);
            assert_eq!(asker.stats().expect("stats").ack_requests, requests);
            requests >= 3
        });
        asker.detach().expect("detach");
    });
}

#[test]
fn off_changes_nothing() {
    let _alone = alone();
    let pair = Pair::new();
    pair.run(|_, far| {
        let asker = asker(false);
        let mut transfer = ready(&pair);
        send(&mut transfer, 100);
        assert_eq!(arrived(far, 100), [false; 100]);
        assert_eq!(asker.detach().expect("detach").ack_requests, 0);
    });
}

/// Sends more than four windows; returns the receiver's counts, and how long the transfer took.
fn windows(ask: bool, obey: bool) -> (Stats, Duration) {
    let _alone = alone();
    let pair = Pair::new();
    pair.run(|_, _| {
        let asker = asker(ask);
        let thinner = receiver(&pair, obey);
        let mut transfer = ready(&pair);
        let start = Instant::now();
        send(&mut transfer, 300);
        let elapsed = start.elapsed();
        asker.detach().expect("detach");
        (thinner.detach().expect("detach"), elapsed)
    })
}

#[test]
fn the_receiver_answers_at_once() {
    let (waits, slow) = windows(false, true);
    assert_eq!(waits.ack_rate_requests, 0, "nobody asks");
    assert!(slow >= 2 * HOLD, "{slow:?}: windows wait: {waits:#?}");
    let (deaf, slow) = windows(true, false);
    assert_eq!(deaf.ack_rate_requests, 0, "nobody obeys");
    assert!(slow >= 2 * HOLD, "{slow:?}: windows wait: {deaf:#?}");
    // A busy machine makes it longer, never shorter.
    let mut seen = Vec::new();
    eventually("a transfer that waits for no ACK", || {
        let (answered, elapsed) = windows(true, true);
        assert!(answered.ack_rate_requests > 3, "{answered:#?}");
        // The number of ACKs depends on how the segments arrive.
        assert!(
            2 * answered.withheld > answered.acks,
            "the others wait: {answered:#?}"
        );
        seen.push(elapsed);
        elapsed < HOLD
    });
    println!("{slow:?} without, {seen:?} with requests");
}

/// The next segments: their numbers from 0, and which of them ask.
fn next(peer: &Peer<'_>, segments: usize) -> Vec<(u32, bool)> {
    let frames = peer.expect(segments);
    let number = |frame: &Frame| {
        let seg = Seg::read(&frame.bytes).expect("a segment");
        assert_eq!(seg.payload, FULL);
        peer.offset(seg.seq) / FULL as u32
    };
    frames.iter().map(number).zip(which_ask(&frames)).collect()
}

/// Runs a test on a sender with more data than any test takes.
fn with_a_peer(flight: usize, test: impl FnOnce(&Peer<'_>) + Send) {
    let _alone = alone();
    Pair::new().run(|_, far| {
        let asker = asker(true);
        let mut peer = Peer::connect(far, &format!("initcwnd {flight}"), &[]);
        peer.write(80);
        test(&peer);
        asker.detach().expect("detach");
    });
}

#[test]
fn an_outstanding_request_is_not_repeated() {
    with_a_peer(2, |peer| {
        assert_eq!(next(peer, 2), [(0, false), (1, true)]);
        // Slow start: each ACK of a segment releases two, the second of which fills the window.
        peer.ack(1, 60_000);
        assert_eq!(next(peer, 2), [(2, false), (3, false)]);
        peer.ack(2, 60_000);
        assert_eq!(next(peer, 2), [(4, false), (5, true)]);
        peer.ack(5, 60_000);
        assert_eq!(next(peer, 1)[0], (6, false));
    });
}

/// A retransmission asks. One before the end of an outstanding request does not move that end: new
/// data sent before it is acknowledged do not ask.
#[test]
fn a_retransmission_asks_and_takes_no_request_back() {
    with_a_peer(4, |peer| {
        assert_eq!(
            next(peer, 4),
            [(0, false), (1, false), (2, false), (3, true)]
        );
        // Nothing arrives: the retransmission timer expires.
        assert_eq!(next(peer, 1), [(0, true)]);
        // After its ACK Linux tries new data first (RFC 5682), two segments in slow start.
        peer.ack(1, 60_000);
        assert_eq!(next(peer, 2), [(4, false), (5, false)]);
        // They arrived, so nothing before them was lost.
        peer.ack(6, 60_000);
        let then = next(peer, 2);
        assert_eq!(then[0], (6, false));
        assert!(then[1].0 == 7);
    });
}

/// A retransmission of data beyond the request moves its end there: new data sent before that is
/// acknowledged do not ask, although the first request is answered.
#[test]
fn a_request_is_outstanding_to_the_farthest_end_that_asked() {
    with_a_peer(4, |peer| {
        assert_eq!(next(peer, 4).last(), Some(&(3, true)));
        // Slow start: six segments leave, the last of which fills the window, while 3 asks.
        peer.ack(3, 60_000);
        let numbers: Vec<_> = (4..10).map(|number| (number, false)).collect();
        assert_eq!(next(peer, 6), numbers);
        // 3, 4 and 5 are lost.
        peer.ack_and_sack(3, 6..10);
        assert_eq!(next(peer, 3), [(3, true), (4, true), (5, true)]);
        // 5 is still outstanding. Two new segments fill the window.
        peer.ack_and_sack(5, 6..10);
        assert_eq!(next(peer, 2), [(10, false), (11, false)]);
        // Everything that asked is acknowledged.
        peer.ack(11, 60_000);
        let then = next(peer, 2);
        assert_eq!(then, [(12, false), (13, true)]);
    });
}

#[test]
fn the_last_segment_of_the_receiver_s_window_asks() {
    with_a_peer(4, |peer| {
        assert_eq!(next(peer, 4).last(), Some(&(3, true)));
        // The congestion window allows eight segments, the receiver three and a part.
        peer.ack(4, 3 * FULL as u16 + 100);
        assert_eq!(next(peer, 3), [(4, false), (5, false), (6, true)]);
        // Now the congestion window limits, which stayed at eight while nothing filled it.
        peer.ack(7, 60_000);
        let flight = next(peer, 8);
        assert!(flight[..7].iter().all(|(_, asks)| !asks), "{flight:?}");
        assert_eq!(flight[7], (14, true));
    });
}

/// Sequence numbers wrap in comparisons, so that one from 2 GiB ago looks like a future one.
#[test]
fn a_request_of_2_gib_ago_is_not_outstanding() {
    let _alone = alone();
    let pair = Pair::new();
    pair.run(|_, _| {
        let asker = asker(true);
        let requests = || asker.stats().expect("stats").ack_requests;
        let mut transfer = few_large_packets(&pair);
        let segment = transfer.info().tcpi_snd_mss as usize;
        assert!(segment > 60_000, "{segment}");
        let bytes = vec![7; 64 * segment];
        let mut got = vec![0; bytes.len()];
        let mut send = |segments: usize| {
            let bytes = &bytes[..segments * segment];
            transfer.from.write_all(bytes).expect("write");
            let got = &mut got[..bytes.len()];
            transfer.to.read_exact(got).expect("read");
            acknowledged(&transfer).tcpi_snd_cwnd as usize
        };
        // An ACK that arrives meanwhile makes room: then none of the segments is the last.
        let asks_again = |before: u64, send: &mut dyn FnMut(usize) -> usize| {
            let mut window = send(1);
            (0..100).any(|_| {
                window = send(window.min(64));
                requests() > before
            })
        };
        assert!(asks_again(0, &mut send), "a window that is filled asks");
        let before = requests();
        for _ in 0..(1_usize << 31) / (2 * segment) + 10 {
            send(2);
        }
        assert_eq!(requests(), before, "two segments fill no window");
        assert!(asks_again(before, &mut send), "2 GiB later");
        asker.detach().expect("detach");
    });
}

/// A connection with segments of the maximum length and without retransmissions.
fn few_large_packets(pair: &Pair) -> Transfer {
    let end = |interface: &str, address: &str, route: &str| {
        for (name, value) in [
            ("tcp_rmem", "4096 8388608 8388608"),
            ("tcp_wmem", "4096 8388608 8388608"),
            ("tcp_congestion_control", "reno"),
            ("tcp_early_retrans", "0"),
        ] {
            fs::write(format!("/proc/sys/net/ipv4/{name}"), value).expect("sysctl");
        }
        ip(&format!("addr add {address}/24 dev {interface}"));
        ip(&format!("link set {interface} mtu 65535 gso_max_segs 1"));
        ip(&format!(
            "route replace 198.18.7.0/24 dev {interface} {route}"
        ));
    };
    pair.far.run(|| end("aw1", "198.18.7.2", "quickack 1"));
    end("aw0", "198.18.7.1", "initcwnd 6 rto_min 10s");
    Transfer::connect(pair)
}

#[test]
fn only_a_sender_can_ask() {
    let _alone = alone();
    Pair::new().run(|_, _| {
        let mut options = Options::new("aw0", "none".parse().expect("a policy"));
        options.ack_request = true;
        let refused = Datapath::attach(options).expect_err("position receiver");
        assert!(
            matches!(refused, Error::NotTheSender("receiver")),
            "{refused}"
        );
    });
}
