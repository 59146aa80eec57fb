//! The bit that asks for an ACK at once, between two ends on the running kernel: the sender's
//! datapath sets it in the last packet of a window, and the receiver's lets that ACK pass.

mod common;

use std::io::{Read, Write};
use std::mem::{size_of, zeroed};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use ackwise_datapath::{Datapath, Error, Options, Position, Stats};
use common::{Frame, Pair, Seg, Wire, alone, eventually, ip, ms, no_checksum_offload};

/// Segments of the first flight, by the sender's route.
const FIRST: usize = 6;
const SEGMENT: usize = 548;
/// How long an ACK may wait that nobody asks for.
const HOLD: Duration = Duration::from_millis(200);

fn asker(on: bool) -> Datapath {
    let mut options = Options::new("aw0", "none".parse().expect("a policy"));
    options.position = Position::Sender;
    options.ack_request = on;
    Datapath::attach(options).unwrap_or_else(|e| panic!("{e}"))
}

/// Holds each ACK that the contract lets it hold and nobody asks for.
fn receiver(pair: &Pair, obey: bool) -> Datapath {
    pair.far.run(|| {
        let mut options = Options::new("aw1", "every-n:n=256,warm=0".parse().expect("a policy"));
        options.obey_ack_rate = obey;
        options.hold_max = HOLD;
        options.hold_min = HOLD;
        Datapath::attach(options).unwrap_or_else(|e| panic!("{e}"))
    })
}

/// A sender in the near namespace, and a receiver in the far one whose kernel acknowledges each
/// segment (`quickack`): what is withheld is the datapath's doing alone.
struct Transfer {
    from: TcpStream,
    to: TcpStream,
}

impl Transfer {
    fn new(pair: &Pair) -> Transfer {
        // A packet a segment, with its checksum complete.
        no_checksum_offload("aw0");
        pair.far.run(|| {
            ip("addr add 198.18.7.2/24 dev aw1");
            ip("link set aw1 mtu 600");
            ip("route replace 198.18.7.0/24 dev aw1 quickack 1");
        });
        ip("addr add 198.18.7.1/24 dev aw0");
        // Else several segments are one packet, and ask together.
        ip("link set aw0 mtu 600 gso_max_segs 1");
        ip(&format!(
            "route replace 198.18.7.0/24 dev aw0 initcwnd {FIRST}"
        ));
        Transfer::again(pair)
    }

    /// One more connection.
    fn again(pair: &Pair) -> Transfer {
        let server = TcpListener::bind("198.18.7.1:80").expect("bind");
        let to = pair
            .far
            .run(|| TcpStream::connect("198.18.7.1:80").expect("connect"));
        let (from, _) = server.accept().expect("accept");
        from.set_nodelay(true).expect("nodelay");
        to.set_read_timeout(Some(ms(30_000))).expect("a timeout");
        Transfer { from, to }
    }

    /// The congestion window in segments, and what is outstanding, as the kernel tells it.
    fn info(&self) -> (usize, u32) {
        // SAFETY: all zeroes is a value; the kernel writes no more than it is told there is.
        let info = unsafe {
            let mut info: libc::tcp_info = zeroed();
            let mut len = size_of::<libc::tcp_info>() as u32;
            let told = libc::getsockopt(
                self.from.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &raw mut len,
            );
            assert_eq!(told, 0);
            info
        };
        (info.tcpi_snd_cwnd as usize, info.tcpi_unacked)
    }

    /// The congestion window once all is acknowledged.
    fn window(&self) -> usize {
        eventually("all is acknowledged", || self.info().1 == 0);
        self.info().0
    }

    fn send(&mut self, segments: usize) {
        let sent: Vec<u8> = (0..segments * SEGMENT).map(|n| (n / 7) as u8).collect();
        self.from.write_all(&sent).expect("write");
        let mut got = vec![0; sent.len()];
        self.to.read_exact(&mut got).expect("read");
        assert_eq!(got, sent);
    }
}

/// Which of the data segments ask, in the order in which they came.
fn asks(frames: &[Frame]) -> Vec<bool> {
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
    let mut asked = Vec::new();
    eventually("the segments are captured", || {
        asked.extend(asks(&far.tcp(ms(1))));
        asked.len() >= segments
    });
    asked
}

#[test]
fn the_last_segment_of_a_window_asks() {
    let _alone = alone();
    let pair = Pair::new();
    pair.run(|_, far| {
        let asker = asker(true);
        let mut transfer = Transfer::new(&pair);
        assert_eq!(transfer.window(), FIRST);
        // Fewer than the window has: none is the last that it allows.
        transfer.send(FIRST - 1);
        assert_eq!(arrived(far, FIRST - 1), [false; FIRST - 1]);
        let mut asked = 0;
        // An ACK that comes meanwhile makes room: then none of the segments is the last.
        eventually("three windows that are filled at once", || {
            let mut transfer = Transfer::again(&pair);
            assert_eq!(transfer.window(), FIRST);
            transfer.send(FIRST);
            let seen = arrived(far, FIRST);
            assert_eq!(seen[..FIRST - 1], [false; FIRST - 1]);
            asked += u64::from(seen[FIRST - 1]);
            assert_eq!(asker.stats().expect("stats").ack_requests, asked);
            asked >= 3
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
        let mut transfer = Transfer::new(&pair);
        transfer.send(100);
        assert_eq!(arrived(far, 100), [false; 100]);
        assert_eq!(asker.detach().expect("detach").ack_requests, 0);
    });
}

/// Four windows and more; the receiver's counts, and how long the transfer took.
fn windows(ask: bool, obey: bool) -> (Stats, Duration) {
    let _alone = alone();
    let pair = Pair::new();
    pair.run(|_, _| {
        let asker = asker(ask);
        let thinner = receiver(&pair, obey);
        let mut transfer = Transfer::new(&pair);
        let start = Instant::now();
        transfer.send(300);
        let took = start.elapsed();
        asker.detach().expect("detach");
        (thinner.detach().expect("detach"), took)
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
        let (answered, took) = windows(true, true);
        assert!(answered.ack_rate_requests > 3, "{answered:#?}");
        assert!(answered.withheld > 100, "the others wait: {answered:#?}");
        seen.push(took);
        took < HOLD
    });
    println!("{slow:?} without, {seen:?} with requests");
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
