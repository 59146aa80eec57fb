//! Where an upload fills the queue in which the ACKs wait, `adaptive` lets every ACK pass.

use ackwise_scenario::Scenario;
use ackwise_scenario::record::Run;
use ackwise_sim::{RunOptions, run};

/// A thin uplink behind a deep FIFO.
const NETWORK: &str = r#"
[scenario]
name = "test"
duration = "30 s"
[[node]]
name = "server"
[[node]]
name = "client"
[[link]]
name = "wan"
between = ["server", "client"]
forward = { rate = "30 Mbit/s", delay = "40 ms", queue = "300 packets" }
reverse = { rate = "300 kbit/s", delay = "40 ms", queue = "100 packets" }
[[flow]]
name = "down"
from = "server"
to = "client"
app = "bulk"
cc = "cubic"
"#;
const UPLOAD: &str = r#"
[[flow]]
name = "up"
from = "client"
to = "server"
app = "bulk"
cc = "cubic"
start = "2 s"
"#;

/// An arm with `adaptive` and one without. The ACKs leave at the client, and come in at the server.
fn arms(node: &str) -> String {
    let position = if node == "client" {
        "receiver"
    } else {
        "sender"
    };
    format!(
        "[[arm]]\nname = \"baseline\"\n\
         [[arm]]\nname = \"adaptive\"\npolicy = \"adaptive\"\nat = \"{node}\"\n\
         link = \"wan\"\nposition = \"{position}\"\nflows = [\"down\"]\n"
    )
}

/// The place of a loss decides a single run, so the results for several path lengths are averaged.
const LENGTHS_MS: std::ops::Range<u32> = 36..46;

/// Means over the runs.
struct Outcome {
    /// Goodput of the download in bit/s.
    download: f64,
    /// Share of the ACKs that were withheld and superseded.
    saved: f64,
}

fn outcomes(parts: &[&str], node: &str) -> [Outcome; 2] {
    let lengths: Vec<String> = LENGTHS_MS.map(|ms| format!("\"{ms} ms\"")).collect();
    let sweep = format!(
        "[sweep]\nlink.wan.forward.delay = [{}]\n",
        lengths.join(", ")
    );
    let text = [NETWORK, &parts.concat(), &arms(node), &sweep].concat();
    let scenario = Scenario::parse("test.toml", &text).unwrap_or_else(|e| panic!("{e}"));
    let report = run(&scenario, &RunOptions::default(), &mut |_| {}).unwrap();
    ["baseline", "adaptive"].map(|arm| {
        let runs: Vec<_> = report.runs.iter().filter(|run| run.arm == arm).collect();
        assert_eq!(runs.len(), LENGTHS_MS.len());
        let mean = |of: fn(&Run, &str) -> f64| {
            runs.iter().map(|run| of(run, node)).sum::<f64>() / runs.len() as f64
        };
        Outcome {
            download: mean(|run, _| {
                let flow = run.flows.iter().find(|flow| flow.flow == "down");
                flow.map_or(&run.totals, |flow| &flow.traffic).goodput_bps
            }),
            saved: mean(|run, node| {
                run.datapath.as_ref().map_or(0.0, |places| {
                    let place = &places[&format!("{node}/wan")];
                    let count = |name: &str| place[name].as_f64().unwrap();
                    (count("withheld") - count("reemitted")) / count("acks")
                })
            }),
        }
    })
}

/// Where only ACKs fill the uplink, thinning improves the download.
#[test]
fn alone_on_the_uplink_it_thins() {
    let [nothing, adaptive] = outcomes(&[], "client");
    assert!(adaptive.saved > 0.5, "{}", adaptive.saved);
    let gain = adaptive.download / nothing.download;
    assert!(gain > 1.1, "{gain}");
}

/// What leaves beside the ACKs is counted at the interface, so that the download does not
/// suffer from it.
#[test]
fn beside_an_upload_every_ack_passes() {
    let [nothing, adaptive] = outcomes(&[UPLOAD], "client");
    assert!(adaptive.saved < 0.2, "{}", adaptive.saved);
    let share = adaptive.download / nothing.download;
    assert!(share > 0.9, "{share}");
}

/// At the sender the ACKs come in: what leaves there does not share their uplink, and what
/// leaves beside them elsewhere is not visible.
#[test]
fn where_the_acks_come_in_nothing_is_counted() {
    let [_, adaptive] = outcomes(&[UPLOAD], "server");
    assert!(adaptive.saved > 0.4, "{}", adaptive.saved);
}

/// A low-rate flow beside the download does not count as an upload.
#[test]
fn an_exchange_now_and_then_fills_nothing() {
    let chunks = "\"chunks\"\nchunk = \"200 B\"\nperiod = \"5 s\"";
    let exchange = UPLOAD.replace("\"bulk\"", chunks);
    let [_, adaptive] = outcomes(&[&exchange], "client");
    assert!(adaptive.saved > 0.5, "{}", adaptive.saved);
}

/// Requests are short packets that wait for responses: they do not fill the uplink, however many
/// there are. Uploads of forms and pictures do.
#[test]
fn requests_fill_nothing_and_full_packets_do() {
    for (request, thins) in [("500 B", true), ("20 kB", false)] {
        let exchanges = format!(
            "[[flow]]\nname = \"exchange\"\nfrom = \"server\"\nto = \"client\"\n\
             app = \"request-response\"\nrequest = \"{request}\"\nresponse = \"20 kB\"\n\
             connections = 6\ncc = \"cubic\"\n"
        );
        let [_, adaptive] = outcomes(&[&exchanges], "client");
        assert_eq!(adaptive.saved > 0.4, thins, "{request}: {}", adaptive.saved);
    }
}
