//! TCP ACK Rate Request: the running kernel's own TCP asks, byte for byte like the simulator's
//! codec, and the receiver's datapath obeys.

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use ackwise_datapath::{AckRateRequest, AckRateRequester, Datapath, Error, Options, Position};
use ackwise_policy::AckRate;
use common::cgroup::Cgroup;
use common::{Flow, Pair, SYN, Seg, Wire, alone, eventually, ip, ms, no_checksum_offload};

fn options(obey: bool) -> Options {
    let mut options = Options::new("aw0", "every-n:n=1,warm=0".parse().expect("a policy"));
    options.obey_ack_rate = obey;
    // Long enough that no hold ends before the ACK that ends it.
    options.hold_max = ms(250);
    options.hold_min = ms(250);
    options
}

fn attach(obey: bool) -> Datapath {
    Datapath::attach(options(obey)).unwrap_or_else(|e| panic!("{e}"))
}

fn started(near: &Wire, far: &Wire) -> Flow {
    let like = Seg {
        window: 60_000,
        ..Seg::ack(0)
    };
    let flow = Flow::start(near, far, like);
    far.drain(ms(20));
    flow
}

/// Sends data that carry this request.
fn ask(flow: &mut Flow, far: &Wire, seen: AckRate) {
    flow.like.options = seen.bytes().to_vec();
    let padded = flow.like.options.len().next_multiple_of(4);
    flow.like.options.resize(padded, 1);
    flow.data(far);
    flow.like.options.clear();
}

/// Sends one ACK for each of this many segments, and returns how many leave. The last one must
/// leave, or this waits forever.
fn leave(flow: &mut Flow, near: &Wire, far: &Wire, segments: usize) -> usize {
    let mut last = Vec::new();
    for _ in 0..segments {
        last = flow.step(near, far);
    }
    far.expect_up_to(&last).len()
}

/// Repeats until the result is that of an idle machine: on a busy one a flow may fall idle, or a
/// hold may end by itself, and then more ACKs leave than in an undisturbed try.
fn least(what: &str, want: usize, mut one: impl FnMut() -> usize) {
    let mut seen = Vec::new();
    eventually(what, || {
        seen.push(one());
        assert!(seen.len() < 2000, "{what}: {seen:?}");
        seen.last() == Some(&want)
    });
    assert!(seen.iter().all(|n| *n >= want), "{what}: {seen:?}");
}

#[test]
fn the_datapath_sends_one_ack_for_as_many_segments_as_are_asked_for() {
    let _alone = alone();
    Pair::new().run(|near, far| {
        let datapath = attach(true);
        let mut flow = started(near, far);
        let requests = || datapath.stats().expect("stats").ack_rate_requests;
        assert_eq!(requests(), 0);
        assert_eq!(leave(&mut flow, near, far, 20), 20, "nobody has asked");
        let heard = |flow: &mut Flow, seen| {
            let before = requests();
            ask(flow, far, seen);
            eventually("the request arrives", || requests() == before + 1);
            let frame = flow.ack().frame();
            near.send(&frame);
            frame
        };
        for segments in [4, 16, 2] {
            heard(&mut flow, AckRate::Every(segments));
            let segments = usize::from(segments);
            let what = format!("one ACK for {segments}");
            least(&what, 1, || {
                // Any run is over once an immediate ACK has left.
                let at_once = heard(&mut flow, AckRate::Now);
                far.expect_up_to(&at_once);
                leave(&mut flow, near, far, segments)
            });
        }
        datapath.detach().expect("detach");
    });
}

#[test]
fn a_datapath_that_was_not_told_to_obey_does_not() {
    let _alone = alone();
    Pair::new().run(|near, far| {
        let datapath = attach(false);
        let mut flow = started(near, far);
        ask(&mut flow, far, AckRate::Every(16));
        let frame = flow.ack().frame();
        near.send(&frame);
        far.expect_up_to(&frame);
        assert_eq!(leave(&mut flow, near, far, 64), 64);
        assert_eq!(datapath.detach().expect("detach").ack_rate_requests, 0);
    });
}

#[test]
fn only_a_receiver_with_every_n_obeys() {
    let _alone = alone();
    Pair::new().run(|_, _| {
        let mut other = options(true);
        other.policy = "adaptive".parse().expect("a policy");
        let mut place = options(true);
        place.position = Position::Sender;
        for wrong in [other, place] {
            let refused = Datapath::attach(wrong).expect_err("it cannot");
            assert!(matches!(refused, Error::NotObeying), "{refused}");
        }
    });
}

/// The options of the TCP segments that passed, and how many of each there were.
#[derive(Debug, Default)]
struct SeenOptions {
    syns: Vec<Option<AckRate>>,
    requests: Vec<AckRate>,
    data: usize,
    largest: usize,
}

impl SeenOptions {
    fn record(&mut self, frames: Vec<common::Frame>) {
        for frame in frames {
            let Some(seg) = Seg::read(&frame.bytes).filter(|s| s.sport == 80 || s.dport == 80)
            else {
                continue;
            };
            let seen = AckRate::find(&seg.options);
            if seg.flags & SYN != 0 {
                let at = seg
                    .options
                    .windows(4)
                    .filter(|four| *four == [254, 4, 0, 0xac]);
                assert_eq!(at.count() == 1, seen == Some(AckRate::Capable), "{seg:?}");
                self.syns.push(seen);
                continue;
            }
            if let Some(seen) = seen {
                assert!(seg.payload > 0, "a pure ACK asks for nothing: {seg:?}");
                let AckRate::Every(segments) = seen else {
                    panic!("{seen:?}");
                };
                let bytes = [254, 5, 0, 0xac, segments << 1];
                assert_eq!(*seen.bytes(), bytes, "as the draft has it");
                assert!(seg.options.windows(5).any(|five| five == bytes), "{seg:?}");
                self.requests.push(seen);
            }
            self.data += usize::from(seg.payload > 0);
            self.largest = self.largest.max(seg.payload);
        }
    }
}

/// Sends this much from the host to a far one, and returns what is announced on the way. The
/// listener is in the namespace that receives, so that the program covers the sockets of both ends,
/// or of one.
fn transfer(
    pair: &Pair,
    far: &Wire,
    listener_knows: bool,
    request: AckRateRequest,
) -> (SeenOptions, AckRateRequester) {
    no_checksum_offload("aw0");
    pair.far.run(|| {
        ip("addr add 198.18.7.2/24 dev aw1");
        ip("link set aw1 mtu 600");
    });
    ip("addr add 198.18.7.1/24 dev aw0");
    ip("link set aw0 mtu 600");
    let listen = || {
        pair.far
            .run(|| TcpListener::bind("198.18.7.2:80").expect("bind"))
    };
    let early = (!listener_knows).then(listen);
    let cgroup = Cgroup::enter();
    let asker = AckRateRequester::attach(&cgroup.path, request).unwrap_or_else(|e| panic!("{e}"));
    let server = early.unwrap_or_else(listen);
    let mut from = TcpStream::connect("198.18.7.2:80").expect("connect");
    let (mut to, _) = server.accept().expect("accept");
    to.set_read_timeout(Some(ms(60_000))).expect("a timeout");
    let mut seen = SeenOptions::default();
    for turn in 0..100_u8 {
        let sent = vec![turn; 20_000];
        from.write_all(&sent).expect("write");
        let mut got = vec![0; sent.len()];
        to.read_exact(&mut got).expect("read");
        assert_eq!(got, sent);
        seen.record(far.drain(ms(0)));
    }
    seen.record(far.drain(ms(50)));
    drop(cgroup);
    (seen, asker)
}

#[test]
fn the_kernel_asks_as_the_draft_says() {
    let _alone = alone();
    let pair = Pair::new();
    pair.run(|_, far| {
        let (seen, asker) = transfer(&pair, far, true, AckRateRequest::Segments(8));
        assert_eq!(seen.syns, [Some(AckRate::Capable); 2], "SYN and SYN-ACK");
        assert!(!seen.requests.is_empty(), "{seen:?}");
        assert!(seen.requests.iter().all(|seen| *seen == AckRate::Every(8)));
        // A request ends when it is acknowledged, and segments are then as large as before.
        assert!(seen.requests.len() < seen.data / 4, "{seen:?}");
        assert_eq!(seen.largest, 548, "600 less IP, TCP and timestamps");
        let counters = asker.counters().expect("counters");
        assert_eq!((counters.offered, counters.agreed), (2, 2));
        assert!(
            counters.asked >= 1 && counters.segments >= 1,
            "{counters:?}"
        );
    });
}

/// As if a box on the path removed the option from the SYN-ACK.
#[test]
fn a_receiver_that_does_not_know_the_option_is_not_asked() {
    let _alone = alone();
    let pair = Pair::new();
    pair.run(|_, far| {
        let (seen, asker) = transfer(&pair, far, false, AckRateRequest::Segments(8));
        assert_eq!(seen.syns, [Some(AckRate::Capable), None], "SYN and SYN-ACK");
        assert_eq!(seen.requests, []);
        let counters = asker.counters().expect("counters");
        assert_eq!((counters.agreed, counters.asked), (0, 0));
    });
}

#[test]
fn who_only_says_that_it_knows_asks_for_nothing() {
    let _alone = alone();
    let pair = Pair::new();
    pair.run(|_, far| {
        let (seen, asker) = transfer(&pair, far, true, AckRateRequest::Nothing);
        assert_eq!(seen.syns, [Some(AckRate::Capable); 2]);
        assert_eq!(seen.requests, []);
        assert_eq!(asker.counters().expect("counters").agreed, 2);
    });
}

/// Both ends on the running kernel: the sender's sockets ask, and the receiver's datapath obeys.
#[test]
fn what_the_kernel_asks_the_datapath_obeys() {
    let _alone = alone();
    let pair = Pair::new();
    pair.run(|_, far| {
        let datapath = pair.far.run(|| {
            let mut options = options(true);
            options.ifname = "aw1".to_owned();
            options.hold_max = ms(25);
            options.hold_min = ms(10);
            Datapath::attach(options).unwrap_or_else(|e| panic!("{e}"))
        });
        let (seen, _asker) = transfer(&pair, far, true, AckRateRequest::Segments(8));
        let stats = datapath.detach().expect("detach");
        assert!(!seen.requests.is_empty());
        assert!(stats.ack_rate_requests > 0, "{stats:#?}");
        assert!(
            stats.withheld > 50,
            "n is 1: only requests withhold: {stats:#?}"
        );
    });
}
