use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use super::connections::SYNS;
use super::*;

use crate::protocol::{MAX_RECORDED, MAX_SENT};
use crate::script::Stage;
use crate::segment::{Segment, flag};
use crate::socket::{Received, ReceivedSegment};

const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const REMOTE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));
const PORT: u16 = 9480;

/// A wire on which the test determines what arrives.
struct ScriptedWire<F> {
    readable: File,
    arrives: F,
    /// The number of packets that leave before the route disappears.
    leave: usize,
    sent: RefCell<Vec<Segment>>,
}

impl<F: FnMut() -> Received> Wire for ScriptedWire<F> {
    fn send(&self, packet: &[u8], _: SocketAddr) -> io::Result<bool> {
        let mut sent = self.sent.borrow_mut();
        if sent.len() >= self.leave {
            return Err(io::ErrorKind::NetworkUnreachable.into());
        }
        sent.extend(Segment::read_v4(packet));
        Ok(true)
    }

    fn receive(&mut self) -> io::Result<Received> {
        Ok((self.arrives)())
    }

    fn arrivals(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }
}

fn endpoint(end: End) -> Endpoint {
    Endpoint {
        end,
        acks: End::Client,
        here: LOCAL,
        there: REMOTE,
        scope_id: 0,
        port: PORT,
        ports: (1000..1052).collect(),
    }
}

/// A packet arrives at every read. The engine still checks its clock in between.
#[test]
fn a_flood_does_not_keep_it_from_the_clock() {
    for readable in [true, false] {
        let flood = |port: u16| Segment {
            source: port,
            destination: PORT,
            flags: flag::SYN,
            ..Segment::default()
        };
        let mut port = 0_u16;
        let mut wire = ScriptedWire {
            readable: File::open("/dev/zero").unwrap(),
            arrives: || {
                port = port.wrapping_add(1);
                if !readable {
                    return Received::Unreadable;
                }
                Received::Segment(ReceivedSegment {
                    at_ns: 0,
                    from: REMOTE,
                    segment: flood(port),
                })
            },
            leave: usize::MAX,
            sent: RefCell::default(),
        };
        let script = Script::new(Stage::Short, 1000);
        let (silent, _kept): (OwnedFd, OwnedFd) = nix::unistd::pipe().unwrap();
        let engine = Engine::new(&mut wire, endpoint(End::Server), script);
        let until = Instant::now() + Duration::from_millis(20);
        let records = engine.run(silent.as_fd(), until).unwrap();
        assert!(records.sent.len() <= MAX_SENT);
        assert!(records.seen.len() <= MAX_RECORDED);
    }
}

/// A route that disappears during a probe does not end it; without a route from the start the probe
/// fails.
#[test]
fn an_error_of_sending_ends_it_only_at_the_start() {
    for leave in [0, 5] {
        let mut wire = ScriptedWire {
            readable: File::open("/dev/zero").unwrap(),
            arrives: || Received::Nothing,
            leave,
            sent: RefCell::default(),
        };
        let script = Script::new(Stage::Short, 1000);
        let (silent, _kept): (OwnedFd, OwnedFd) = nix::unistd::pipe().unwrap();
        let engine = Engine::new(&mut wire, endpoint(End::Client), script);
        let until = Instant::now() + Duration::from_millis(200);
        let result = engine.run(silent.as_fd(), until);
        assert_eq!(result.is_ok(), leave > 0);
        assert_eq!(result.map_or(0, |it| it.sent.len()), leave);
    }
}

/// The packets in flight between two ends, and the ends' clock.
struct Link<L> {
    now_ns: u64,
    /// Half of the round-trip time.
    delay_ns: u64,
    /// Segments in flight with their arrival times, by destination.
    in_flight: [VecDeque<(u64, Segment)>; 2],
    /// Decides whether a segment that this end sends at this time is lost.
    loses: L,
}

/// The wire of one end.
struct WireEnd<'a, L> {
    end: End,
    link: &'a RefCell<Link<L>>,
    silent: File,
}

impl<'a, L> WireEnd<'a, L> {
    fn new(end: End, link: &'a RefCell<Link<L>>) -> Self {
        let silent = File::open("/dev/null").unwrap();
        Self { end, link, silent }
    }
}

impl<L: FnMut(End, u64, &Segment) -> bool> Wire for WireEnd<'_, L> {
    fn send(&self, packet: &[u8], _: SocketAddr) -> io::Result<bool> {
        let mut link = self.link.borrow_mut();
        let segment = Segment::read_v4(packet).expect("a segment");
        let (now, at) = (link.now_ns, link.now_ns + link.delay_ns);
        if !(link.loses)(self.end, now, &segment) {
            let to = usize::from(self.end == End::Client);
            link.in_flight[to].push_back((at, segment));
        }
        Ok(true)
    }

    fn receive(&mut self) -> io::Result<Received> {
        let mut link = self.link.borrow_mut();
        let now = link.now_ns;
        let in_flight = &mut link.in_flight[usize::from(self.end == End::Server)];
        let Some((at_ns, segment)) = in_flight.pop_front_if(|(at, _)| *at <= now) else {
            return Ok(Received::Nothing);
        };
        let from = if self.end == End::Client {
            REMOTE
        } else {
            LOCAL
        };
        Ok(Received::Segment(ReceivedSegment {
            at_ns,
            from,
            segment,
        }))
    }

    fn arrivals(&self) -> BorrowedFd<'_> {
        self.silent.as_fd()
    }

    fn now_ns(&self) -> u64 {
        self.link.borrow().now_ns
    }
}

/// The records of both ends of a stage, and how long the client took, in milliseconds.
struct StageOutcome {
    acks: End,
    client: Records,
    server: Records,
    ms: u64,
}

const RTT_MS: u64 = 20;
const HOUR_NS: u64 = 3600 * 1000 * MS;

/// Plays both ends of a stage over a path with the given losses, on a clock of their own.
fn run_stage(
    stage: Stage,
    acks: End,
    rtt_ms: u64,
    loses: impl FnMut(End, u64, &Segment) -> bool,
) -> StageOutcome {
    let link = RefCell::new(Link {
        now_ns: HOUR_NS,
        delay_ns: rtt_ms * MS / 2,
        in_flight: Default::default(),
        loses,
    });
    let mut wires = [End::Client, End::Server].map(|end| WireEnd::new(end, &link));
    let [client, server] = &mut wires;
    let script = || Script::new(stage, 1000);
    let mut client = Engine::new(
        client,
        Endpoint {
            acks,
            ..endpoint(End::Client)
        },
        script(),
    );
    let there = Endpoint {
        acks,
        here: REMOTE,
        there: LOCAL,
        ports: Vec::new(),
        ..endpoint(End::Server)
    };
    let mut server = Engine::new(server, there, script());
    loop {
        let now = link.borrow().now_ns;
        if client.ends(now) {
            break;
        }
        let mut next = now + TICK_NS;
        for end in [&mut client, &mut server] {
            next = next.min(end.act(now).unwrap());
            end.receive().unwrap();
        }
        let mut link = link.borrow_mut();
        let arrivals = link.in_flight.iter().filter_map(|it| it.front());
        let arrival = arrivals.map(|(at, _)| *at).min().unwrap_or(u64::MAX);
        link.now_ns = next.min(arrival).max(now + 1000);
    }
    let ms = (link.borrow().now_ns - HOUR_NS) / MS;
    StageOutcome {
        acks,
        client: client.finish(),
        server: server.finish(),
        ms,
    }
}

impl StageOutcome {
    /// The numbers of script segments that were sent and that were acknowledged by the script, by
    /// connection.
    fn records(&self, script: &Script) -> Vec<[usize; 2]> {
        let (data, acks) = match self.acks {
            End::Client => (&self.server, &self.client),
            End::Server => (&self.client, &self.server),
        };
        let of = |records: &Records, conn: usize, roles: &[Role]| {
            let all = records.sent.iter();
            all.filter(|it| usize::from(it.conn) == conn && roles.contains(&it.role))
                .count()
        };
        let all = 0..script.connections.len();
        all.map(|conn| {
            [
                of(data, conn, &[Role::Data]),
                of(acks, conn, &[Role::Ack, Role::Small]),
            ]
        })
        .collect()
    }
}

const STAGES: [(Stage, End); 4] = [
    (Stage::Long, End::Client),
    (Stage::Long, End::Server),
    (Stage::Short, End::Client),
    (Stage::Short, End::Server),
];

fn is_syn(it: &Segment) -> bool {
    it.flags & (flag::SYN | flag::ACK) == flag::SYN
}

/// Loses the first SYNs of each connection.
fn loses_syns(first: usize) -> impl FnMut(End, u64, &Segment) -> bool {
    let mut lost: HashMap<u16, usize> = HashMap::new();
    move |_, _, it| {
        let lost = lost.entry(it.source).or_default();
        *lost += usize::from(is_syn(it));
        is_syn(it) && *lost <= first
    }
}

/// Every connection plays the whole script, whichever SYN is the first to arrive. A lost SYN costs
/// a second.
#[test]
fn a_connection_comes_into_being_after_lost_syns() {
    for (stage, acks) in STAGES {
        let script = Script::new(stage, 1000);
        let undisturbed = run_stage(stage, acks, RTT_MS, |_, _, _| false);
        for lost in [1, 5, SYNS - 1] {
            let it = run_stage(stage, acks, RTT_MS, loses_syns(lost));
            assert!(
                it.client.connected && it.server.connected,
                "{stage:?} {lost}"
            );
            assert_eq!(it.records(&script), undisturbed.records(&script), "{lost}");
            let longer = it.ms.saturating_sub(undisturbed.ms);
            let wanted = 1000 * lost as u64;
            assert!(
                (wanted..wanted + 200).contains(&longer),
                "{lost}: {longer} ms"
            );
        }
        for [data, acks] in undisturbed.records(&script) {
            assert!(data > 0 && acks > 0);
        }
        // There is no partner.
        let it = run_stage(stage, acks, RTT_MS, loses_syns(SYNS));
        assert!(!it.client.connected);
        assert!(it.ms <= FIRST_NS / MS + 500, "{} ms", it.ms);
    }
}

/// The handshake of one connection completes only after the script has started without it. The
/// connection plays no part, and nobody waits for it.
#[test]
fn a_connection_that_comes_too_late_is_not_made_half_way() {
    const LATE: u16 = 7;
    for acks in [End::Client, End::Server] {
        let script = Script::new(Stage::Short, 1000);
        let whole = run_stage(Stage::Short, acks, 1000, |_, _, _| false);
        let is_late = |it: &Segment| [it.source, it.destination].contains(&(1000 + LATE));
        // Lose its SYNs, its SYN/ACKs, or the ACK that completes its handshake. The last is omitted
        // if the client sends data, since every data segment completes it.
        let of_server = [flag::SYN, flag::SYN | flag::ACK, flag::ACK];
        let lost = if acks == End::Client { 3 } else { 2 };
        for &lost in &of_server[..lost] {
            // The RST for the late connection may be lost, too.
            for loses_rst in [false, true] {
                let mut rsts = 0;
                let mut is_lost = |it: &Segment, ms: u64| {
                    let flags = it.flags & (flag::SYN | flag::ACK | flag::RST);
                    rsts += usize::from(flags & flag::RST != 0);
                    let first_rst = loses_rst && flags & flag::RST != 0 && rsts == 1;
                    is_late(it) && (flags == lost && ms < 4900 || first_rst)
                };
                let it = run_stage(Stage::Short, acks, 1000, |_, at, segment| {
                    is_lost(segment, (at - HOUR_NS) / MS)
                });
                let what = format!("{acks:?}, {lost:x} is lost, {loses_rst}");
                let mut wanted = whole.records(&script);
                wanted[usize::from(LATE)] = [0, 0];
                assert_eq!(it.records(&script), wanted, "{what}");
                let longer = it.ms.saturating_sub(whole.ms);
                assert!(
                    longer < CONNECT_TIMEOUT_NS / MS + 500,
                    "{what}: {longer} ms"
                );
            }
        }
    }
}

/// Lost FINs are retransmitted: the client does not wait for the maximum time of a stage.
#[test]
fn a_lost_fin_costs_a_second() {
    for (stage, acks) in STAGES {
        let whole = run_stage(stage, acks, RTT_MS, |_, _, _| false);
        for end in [End::Client, End::Server] {
            let mut lost = std::collections::HashSet::new();
            let it = run_stage(stage, acks, RTT_MS, |from, _, it| {
                let fin = from == end && it.flags & flag::FIN != 0;
                fin && lost.insert((it.source, it.destination))
            });
            let longer = it.ms.saturating_sub(whole.ms);
            assert!(longer < 1100, "{stage:?} {acks:?} {end:?}: {longer} ms");
        }
    }
}

/// A long round trip is played as well.
#[test]
fn a_long_round_trip_is_played() {
    for (stage, acks) in STAGES {
        let script = Script::new(stage, 1000);
        let whole = run_stage(stage, acks, RTT_MS, |_, _, _| false);
        for rtt_ms in [700, 3000, 6000] {
            let it = run_stage(stage, acks, rtt_ms, |_, _, _| false);
            assert_eq!(it.records(&script), whole.records(&script), "{rtt_ms} ms");
            assert_eq!(it.client.rtt_ns, Some(rtt_ms * MS), "{rtt_ms} ms");
        }
    }
}
