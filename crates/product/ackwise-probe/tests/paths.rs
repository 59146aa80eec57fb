//! Paths with boxes in virtual time; the ends do not know which boxes.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ackwise_datapath::{Datapath, Options, Position};
use ackwise_gateway::{AttachMode, Config, Gateway};
use ackwise_policy::Policy;
use ackwise_probe::{BoxKind, Client, Error, Report, Server};
use ackwise_rng::Rng;
use ackwise_testbed::{
    Netns, Release, Topology, host, in_virtual_time, in_virtual_time_on, link, router, run_command,
};

const PATH: Topology = Topology {
    nodes: &[
        host("client"),
        router("one"),
        router("two"),
        router("three"),
        host("server"),
    ],
    links: &[
        link("client.c0", "one.in0"),
        link("one.out0", "two.in1"),
        link("two.out1", "three.in2"),
        link("three.out2", "server.s0"),
    ],
};

/// The rules and the policer that the conformance suite judges.
const RULES: &str = include_str!("../../../lab/ackwise-conform/setups/nft-ack-rate.sh");
const POLICE: &str = include_str!("../../../lab/ackwise-conform/setups/police.sh");

/// A box in a router, removed when it is dropped or with its namespace.
enum Inserted {
    Kernel,
    Datapath { _it: Datapath },
    Gateway { _it: Gateway },
}

fn shell(script: &str, number: usize) {
    let script = format!("set -eu\nIN=in{number} OUT=out{number}\n{script}");
    let out = Command::new("sh")
        .args(["-c", &script])
        .output()
        .expect("a shell");
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
}

/// Inserts a box in the namespace of the router with this number. All boxes except the rules see
/// only one direction, that of the client's ACKs.
fn insert(known: BoxKind, number: usize, policy: &str) -> Inserted {
    let out = format!("out{number}");
    match known {
        BoxKind::LengthAndRate => shell(RULES, number),
        BoxKind::Policer => shell(POLICE, number),
        BoxKind::CakeAckFilter => shell(
            "tc qdisc add dev $OUT root cake bandwidth 20mbit ack-filter",
            number,
        ),
        BoxKind::CakeAckFilterAggressive => {
            shell(
                "tc qdisc add dev $OUT root cake bandwidth 20mbit ack-filter-aggressive",
                number,
            );
        }
        BoxKind::AckwiseAttach => {
            let policy = ackwise_policy::Config::new(Policy::by_name(policy).expect("a policy"));
            let mut options = Options::new(&out, policy);
            options.position = Position::Router;
            let attached = Datapath::attach(options).expect("a datapath");
            return Inserted::Datapath { _it: attached };
        }
        BoxKind::AckwiseGateway => {
            let text = format!(
                "interface = \"{out}\"\nrate = \"20 Mbit/s\"\n\
                 queue = {{ limit = \"1000 packets\", ack_filter = \"rfc3449-sack\" }}"
            );
            let config = Config::parse("test", &text).expect("a configuration");
            let gateway = Gateway::start(config, AttachMode::Auto).expect("a gateway");
            // The gateway starts to redirect a little later.
            thread::sleep(Duration::from_millis(100));
            return Inserted::Gateway { _it: gateway };
        }
        BoxKind::NumbersOnly | BoxKind::Proxy | BoxKind::Unknown => unreachable!("not on a kernel"),
    }
    Inserted::Kernel
}

/// Rewrites what arrives from the client's side: a lower MSS, no SACK, no ECN.
const REWRITES: &str = r#"
nft -f - <<'RULES'
table inet rewrite {
	chain forward {
		type filter hook forward priority 0; policy accept;
		iifname "in1" tcp flags & syn == syn tcp option maxseg size set 1200
		iifname "in1" tcp flags & syn == syn reset tcp option sack-perm
		iifname "in1" ip ecn set not-ect
		iifname "in1" tcp flags & (syn | ack) == syn tcp flags set syn
	}
}
RULES
"#;

struct Path {
    nodes: [Netns; 5],
    inserted: Vec<Inserted>,
}

impl Path {
    /// Creates the path, with this queue discipline behind each end.
    fn new(ends: &str) -> Self {
        let nodes: [Netns; 5] = PATH.build();
        for (node, device) in [(&nodes[0], "c0"), (&nodes[4], "s0")] {
            node.run(|| run_command("tc", &format!("qdisc add dev {device} root {ends}")));
        }
        Self {
            nodes,
            inserted: Vec::new(),
        }
    }

    fn with(mut self, row: &[BoxKind], policy: &str) -> Self {
        for (number, known) in row.iter().enumerate() {
            let inserted = self.nodes[number + 1].run(|| insert(*known, number, policy));
            self.inserted.push(inserted);
        }
        self
    }

    fn probe(&self) -> Report {
        self.probe_at("10.9.4.2", 1000)
    }

    fn probe_at(&self, host: &str, interval_us: u32) -> Report {
        let [client, .., partner] = &self.nodes;
        probe(client, partner, host, interval_us)
    }
}

fn probe(client: &Netns, partner: &Netns, host: &str, interval_us: u32) -> Report {
    // A burst of loss can take every SYN, or stall the control connection: the probe reports that,
    // and is repeated.
    for _ in 0..3 {
        match try_probe(client, partner, host, interval_us) {
            Ok(report) => return report,
            Err(Error::NoFlow { .. }) => {}
            Err(Error::System { source, .. }) if source.kind() == ErrorKind::TimedOut => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("three probes in a row were not finished");
}

fn try_probe(
    client: &Netns,
    partner: &Netns,
    host: &str,
    interval_us: u32,
) -> Result<Report, Error> {
    let all: SocketAddr = "[::]:9479".parse().expect("an address");
    let mut server = partner.run(|| Server::bind(all)).expect("a server");
    thread::scope(|scope| {
        let served = scope.spawn(|| partner.run(|| server.serve()));
        let records = client.run(|| {
            let client = Client::connect(host, 9479).unwrap_or_else(|error| panic!("{error}"));
            client.probe(interval_us, |_| ())
        });
        let served = served.join().expect("a server");
        let records = records?;
        served.expect("a session");
        Ok(Report::of(host.to_owned(), &records))
    })
}

/// A path that only delays, loses, reorders and duplicates has no box.
#[test]
fn a_path_that_is_only_bad_has_no_box() {
    in_virtual_time_on(Release::Netfilter, || {
        let mut accused = Vec::new();
        for ends in [
            "netem delay 10ms limit 100000",
            "netem delay 10ms loss 5% limit 100000",
            "netem delay 20ms 10ms limit 100000",
            "netem delay 10ms reorder 25% 50% duplicate 1% loss 1% limit 100000",
            "tbf rate 10mbit burst 3000 limit 20000",
            "fq_codel",
            "cake bandwidth 10mbit",
            "cake bandwidth 3mbit",
            "netem delay 10ms rate 7mbit limit 10",
            "netem delay 10ms rate 10mbit limit 20",
            "netem delay 10ms rate 10mbit limit 40",
            "tbf rate 10mbit burst 3000 limit 6000",
            "netem delay 10ms loss gemodel 1% 10% 80% 0.1% limit 100000",
            "netem delay 10ms loss gemodel 0.5% 5% 80% 0.1% limit 100000",
            "netem delay 10ms loss gemodel 3% 30% 80% 0.1% limit 100000",
        ] {
            let report = Path::new(ends).probe();
            if report.directions.iter().any(|it| !it.clean) {
                accused.push(format!("{ends}: {}", report.text()));
            }
        }
        assert!(accused.is_empty(), "{}", accused.join("\n"));
    });
}

/// Neither has a path on which nothing passes for a while.
#[test]
fn an_outage_is_no_box() {
    in_virtual_time_on(Release::Netfilter, || {
        let mut rng = Rng::stream(15, 6);
        for _ in 0..6 {
            let path = Path::new(PLAIN);
            let over = AtomicBool::new(false);
            let report = thread::scope(|scope| {
                scope.spawn(|| {
                    path.nodes[1].run(|| {
                        while !over.load(Ordering::Relaxed) {
                            thread::sleep(Duration::from_millis(1000 + rng.below(4000)));
                            shell("tc qdisc replace dev $OUT root netem loss 100%", 0);
                            thread::sleep(Duration::from_millis(300));
                            shell("tc qdisc del dev $OUT root", 0);
                        }
                    });
                });
                let report = path.probe();
                over.store(true, Ordering::Relaxed);
                report
            });
            let clean = report.directions.iter().all(|it| it.clean);
            assert!(clean, "{}", report.text());
            let lossy = report.directions[0]
                .facts
                .iter()
                .any(|it| it.kind == "loss");
            assert!(lossy, "{}", report.text());
        }
    });
}

const PLAIN: &str = "netem delay 10ms limit 100000";

/// Each box alone is named, in its direction only; the rules act in both.
#[test]
fn each_box_is_named() {
    in_virtual_time_on(Release::Netfilter, || {
        for (known, policy) in [
            (BoxKind::CakeAckFilter, ""),
            (BoxKind::CakeAckFilterAggressive, ""),
            (BoxKind::LengthAndRate, ""),
            (BoxKind::Policer, ""),
            (BoxKind::AckwiseAttach, "every-n"),
            (BoxKind::AckwiseAttach, "tack"),
            (BoxKind::AckwiseAttach, "adaptive"),
            (BoxKind::AckwiseGateway, ""),
        ] {
            let found = Path::new(PLAIN).with(&[known], policy).probe();
            assert_named(&[known], &found);
        }
    });
}

fn assert_named(row: &[BoxKind], found: &Report) {
    let mut there = row.to_vec();
    there.sort();
    let rules = there.iter().copied();
    let rules: Vec<_> = rules.filter(|it| *it == BoxKind::LengthAndRate).collect();
    let named = [found.named(0), found.named(1)];
    assert_eq!(named, [there, rules], "{row:?}: {}", found.text());
}

/// What a router rewrites is reported with its direction, and is not taken for an ACK filter.
#[test]
fn what_is_rewritten_is_told() {
    in_virtual_time_on(Release::Netfilter, || {
        let mut path = Path::new(PLAIN);
        path.nodes[2].run(|| shell(REWRITES, 1));
        let report = path.probe();
        let kinds = |direction: usize| {
            let facts = report.directions[direction].facts.iter();
            facts.map(|it| it.kind).collect::<Vec<_>>()
        };
        let expected = ["mss-lowered", "ecn-refused", "ect-cleared"];
        for kind in expected {
            assert!(kinds(0).contains(&kind), "{kind}: {}", report.text());
            assert!(!kinds(1).contains(&kind), "{kind}: {}", report.text());
        }
        let stripped = report.directions[0].facts.iter();
        let stripped = stripped.filter(|it| it.kind == "option-stripped");
        assert!(
            stripped
                .clone()
                .any(|it| it.text.contains("SACK permitted") && it.hit == it.of),
            "{}",
            report.text()
        );
        assert_eq!([report.named(0), report.named(1)], [[], []]);
        path.inserted.clear();
    });
}

const CE_CLEARED: &str = r#"
nft -f - <<'RULES'
table inet rewrite {
	chain forward {
		type filter hook forward priority 0; policy accept;
		iifname "in1" ip ecn ce ip ecn set ect0
	}
}
RULES
"#;

/// The end that sends data sends marks, so each direction has some.
#[test]
fn cleared_marks_are_told() {
    in_virtual_time_on(Release::Netfilter, || {
        let path = Path::new(PLAIN);
        path.nodes[2].run(|| shell(CE_CLEARED, 1));
        let report = path.probe();
        let kinds = report.directions.iter().map(|it| {
            let facts = it.facts.iter();
            facts.map(|it| it.kind).collect::<Vec<_>>()
        });
        let kinds: Vec<_> = kinds.collect();
        assert_eq!(kinds, [vec!["ce-cleared"], vec![]], "{}", report.text());
    });
}

/// An answer that arrives after the SYN was retransmitted answers the first one.
#[test]
fn a_long_round_trip_is_told() {
    in_virtual_time(|| {
        for ms in [600_u32, 1300] {
            let ends = format!("netem delay {}ms limit 100000", ms / 2);
            let report = Path::new(&ends).probe();
            let rtt_ms = report.rtt_ms.expect("a round-trip time");
            assert!((rtt_ms - f64::from(ms)).abs() < 5.0, "{}", report.text());
            let clean = report.directions.iter().all(|it| it.clean);
            assert!(clean, "{}", report.text());
        }
    });
}

/// A slow path carries the script that is made for it, and a box on it is named.
#[test]
fn a_slow_path_is_probed() {
    in_virtual_time_on(Release::Netfilter, || {
        // The intervals for --rate 1mbit and 313kbit.
        for (rate, interval_us) in [("1mbit", 6260), ("313kbit", 20_000)] {
            let ends = format!("netem delay 10ms rate {rate} limit 100");
            let report = Path::new(&ends).probe_at("10.9.4.2", interval_us);
            let facts = report.directions.iter().flat_map(|it| &it.facts);
            assert_eq!(facts.count(), 0, "{rate}: {}", report.text());
            let path = Path::new(&ends).with(&[BoxKind::AckwiseAttach], "every-n");
            let report = path.probe_at("10.9.4.2", interval_us);
            assert_named(&[BoxKind::AckwiseAttach], &report);
        }
    });
}

/// IPv6 with a box, and between two neighbours that have only link-local addresses.
#[test]
fn ipv6_is_probed() {
    const PAIR: Topology = Topology {
        nodes: &[host("client"), host("server")],
        links: &[link("client.c0", "server.s0")],
    };
    in_virtual_time_on(Release::Netfilter, || {
        let path = Path::new(PLAIN).with(&[BoxKind::CakeAckFilter], "");
        assert_named(&[BoxKind::CakeAckFilter], &path.probe_at("fd09:4::2", 1000));
        let [client, server] = &PAIR.build();
        for (node, device, number) in [(client, "c0", 1), (server, "s0", 2)] {
            let address = format!("-6 addr add fe80::{number}/64 dev {device} nodad");
            node.run(|| run_command("ip", &address));
        }
        let report = probe(client, server, "fe80::2%c0", 1000);
        let clean = report.directions.iter().all(|it| it.clean);
        assert!(clean, "{}", report.text());
    });
}

/// Three boxes in a row, in an order that the ends do not know.
#[test]
fn three_in_a_row_are_named() {
    in_virtual_time_on(Release::Netfilter, || {
        let mut rng = Rng::stream(15, 5);
        for _ in 0..8 {
            let mut row = vec![
                BoxKind::LengthAndRate,
                BoxKind::Policer,
                BoxKind::AckwiseAttach,
                [BoxKind::CakeAckFilter, BoxKind::CakeAckFilterAggressive][rng.below(2) as usize],
            ];
            for last in (1..row.len()).rev() {
                row.swap(last, rng.below(last as u64 + 1) as usize);
            }
            row.truncate(3);
            let policy = ["every-n", "tack", "tack"][rng.below(3) as usize];
            let found = Path::new(PLAIN).with(&row, policy).probe();
            assert_named(&row, &found);
        }
    });
}
