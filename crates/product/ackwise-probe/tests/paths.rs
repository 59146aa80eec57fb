//! Paths in virtual time, with boxes in them; the ends do not know which.

use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::Duration;

use ackwise_datapath::{Datapath, Options, Position};
use ackwise_gateway::{AttachMode, Config, Gateway};
use ackwise_policy::Policy;
use ackwise_probe::{Client, Known, Report, Server};
use ackwise_rng::Rng;
use ackwise_testbed::{
    Netns, Release, Topology, host, in_virtual_time_on, link, router, run_command,
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

/// Something in a router, gone when it is dropped or with its namespace.
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

/// In the namespace of the router with this number. All but the rules see one direction only:
/// that of the client's ACKs.
fn insert(known: Known, number: usize, policy: &str) -> Inserted {
    let out = format!("out{number}");
    match known {
        Known::LengthAndRate => shell(RULES, number),
        Known::Policer => shell(POLICE, number),
        Known::CakeAckFilter => shell(
            "tc qdisc add dev $OUT root cake bandwidth 20mbit ack-filter",
            number,
        ),
        Known::CakeAckFilterAggressive => {
            shell(
                "tc qdisc add dev $OUT root cake bandwidth 20mbit ack-filter-aggressive",
                number,
            );
        }
        Known::AckwiseAttach => {
            let policy = ackwise_policy::Config::new(Policy::by_name(policy).expect("a policy"));
            let mut options = Options::new(&out, policy);
            options.position = Position::Router;
            let attached = Datapath::attach(options).expect("a datapath");
            return Inserted::Datapath { _it: attached };
        }
        Known::AckwiseGateway => {
            let text = format!(
                "interface = \"{out}\"\nrate = \"20 Mbit/s\"\n\
                 queue = {{ limit = \"1000 packets\", ack_filter = \"rfc3449-sack\" }}"
            );
            let config = Config::parse("test", &text).expect("a configuration");
            let gateway = Gateway::start(config, AttachMode::Auto).expect("a gateway");
            // It publishes that it is at work a little later.
            thread::sleep(Duration::from_millis(100));
            return Inserted::Gateway { _it: gateway };
        }
        Known::NumbersOnly | Known::Proxy | Known::Unknown => unreachable!("not on a kernel"),
    }
    Inserted::Kernel
}

/// For what comes in by the client's side: a lower MSS, no SACK, no ECN.
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
    /// With this queue discipline behind each end.
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

    fn with(mut self, row: &[Known], policy: &str) -> Self {
        for (number, known) in row.iter().enumerate() {
            let inserted = self.nodes[number + 1].run(|| insert(*known, number, policy));
            self.inserted.push(inserted);
        }
        self
    }

    fn probe(&self) -> Report {
        let address: SocketAddr = "10.9.4.2:9479".parse().expect("an address");
        let [client, .., partner] = &self.nodes;
        let mut server = partner.run(|| Server::bind(address)).expect("a server");
        thread::scope(|scope| {
            let served = scope.spawn(|| partner.run(|| server.serve()));
            let played = client.run(|| {
                let client =
                    Client::connect("10.9.4.2", 9479).unwrap_or_else(|error| panic!("{error}"));
                client
                    .probe(1000, |_| ())
                    .unwrap_or_else(|error| panic!("{error}"))
            });
            served.join().expect("a server").expect("a session");
            Report::of("10.9.4.2".to_owned(), &played)
        })
    }
}

/// Nothing is named where a path only delays, loses, reorders and copies.
#[test]
fn a_path_that_is_only_bad_has_no_box() {
    in_virtual_time_on(Release::Netfilter, || {
        for ends in [
            "netem delay 10ms limit 100000",
            "netem delay 10ms loss 5% limit 100000",
            "netem delay 20ms 10ms limit 100000",
            "netem delay 10ms reorder 25% 50% duplicate 1% loss 1% limit 100000",
            "tbf rate 10mbit burst 3000 limit 20000",
            "fq_codel",
        ] {
            let report = Path::new(ends).probe();
            let clean = report.directions.iter().all(|it| it.clean);
            assert!(clean, "{ends}: {}", report.text());
        }
    });
}

const PLAIN: &str = "netem delay 10ms limit 100000";

/// Each box by itself is named, in its direction only; the rules act in both.
#[test]
fn each_box_is_named() {
    in_virtual_time_on(Release::Netfilter, || {
        for (known, policy) in [
            (Known::CakeAckFilter, ""),
            (Known::CakeAckFilterAggressive, ""),
            (Known::LengthAndRate, ""),
            (Known::Policer, ""),
            (Known::AckwiseAttach, "every-n"),
            (Known::AckwiseAttach, "tack"),
            (Known::AckwiseGateway, ""),
        ] {
            let found = Path::new(PLAIN).with(&[known], policy).probe();
            assert_named(&[known], &found);
        }
    });
}

fn assert_named(row: &[Known], found: &Report) {
    let mut there = row.to_vec();
    there.sort();
    let rules = there.iter().copied();
    let rules: Vec<_> = rules.filter(|it| *it == Known::LengthAndRate).collect();
    let named = [found.named(0), found.named(1)];
    assert_eq!(named, [there, rules], "{row:?}: {}", found.text());
}

/// What a router rewrites is told, with its direction; and it is no filter of ACKs.
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
        let told = ["mss-lowered", "ecn-refused", "ect-cleared"];
        for kind in told {
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

/// Three in a row, in an order that the ends do not know.
#[test]
fn three_in_a_row_are_named() {
    in_virtual_time_on(Release::Netfilter, || {
        let mut rng = Rng::stream(15, 5);
        for _ in 0..8 {
            let mut row = vec![
                Known::LengthAndRate,
                Known::Policer,
                Known::AckwiseAttach,
                [Known::CakeAckFilter, Known::CakeAckFilterAggressive][rng.below(2) as usize],
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
