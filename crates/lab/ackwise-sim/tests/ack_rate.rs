//! TCP ACK Rate Request, simulated: the sender requests a rate, and the receiver's datapath or stack
//! obeys, under the contract.

use ackwise_scenario::Scenario;
use ackwise_scenario::record::Run;
use ackwise_sim::{RunOptions, run};

const OBEYS: &str = "[[arm]]\nname = \"x\"\npolicy = \"every-n\"\nat = \"b\"\nlink = \"wan\"\n\
                     hold = \"25 ms\"\n";

/// A network where every ACK may be held for 25 ms, and a window has hundreds of segments.
fn scenario(line: &str, flow: &str, arm: &str) -> Scenario {
    let text = format!(
        r#"
[scenario]
name = "ack-rate"
duration = "20 s"
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
name = "wan"
between = ["a", "b"]
forward = {{ rate = "50 Mbit/s", delay = "50 ms", queue = "2 MB"{line} }}
reverse = {{ rate = "50 Mbit/s", delay = "50 ms", queue = "2 MB" }}
[[flow]]
name = "data"
from = "a"
to = "b"
# Less than the line and its queue hold, so that nothing is lost by itself.
socket = {{ receive_buffer = "1500 kB" }}
{flow}
[sweep]
cc = ["reno"]
[[arm]]
name = "baseline"
{arm}
"#
    );
    Scenario::parse("ack-rate.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

const BULK: &str = "app = \"bulk\"\nbytes = \"40 MB\"\n";

/// The runs without and with the arm `x`.
fn runs(scenario: &Scenario) -> (Run, Run) {
    let mut runs = run(scenario, &RunOptions::default(), &mut |_| {})
        .unwrap_or_else(|error| panic!("{error}"))
        .runs;
    assert_eq!(runs.len(), 2);
    let with = runs.pop().expect("two runs");
    (runs.pop().expect("two runs"), with)
}

fn segments_an_ack(run: &Run) -> f64 {
    run.totals.data_segments as f64 / run.totals.acks_on_wire as f64
}

fn requests(run: &Run) -> Option<u64> {
    run.datapath.as_ref().expect("a datapath")["b/wan"]["ack_rate_requests"].as_u64()
}

fn asking(request: &str, more: &str) -> (Run, Run) {
    let flow = format!("{BULK}ack_rate_request = {request}\n");
    runs(&scenario("", &flow, &format!("{OBEYS}{more}")))
}

const DATAPATH: &str = "set = { n = 1 }\nobey_ack_rate = true\n";
const STACK: &str = "environment = \"stack\"\nset = { n = 2 }\nobey_ack_rate = true\n";

#[test]
fn the_receiver_sends_as_many_acks_as_it_is_asked_for() {
    // The window limits this sender, so the contract lets 32 ACKs of each window pass.
    for (segments, least) in [(4, 3.7), (16, 13.5), (64, 30.0)] {
        for place in [DATAPATH, STACK] {
            let (unasked, asked) = asking(&format!("{{ segments = {segments} }}"), place);
            let (before, after) = (segments_an_ack(&unasked), segments_an_ack(&asked));
            assert!(
                (1.9..2.1).contains(&before),
                "without a request: {before} segments per ACK"
            );
            assert!(
                after >= least && after <= f64::from(segments) + 1.0,
                "{segments} were asked for: {after}; {place}"
            );
            assert_eq!(asked.totals.bytes, 40_000_000, "all data arrive");
            assert_eq!(asked.totals.retransmits, unasked.totals.retransmits);
        }
    }
}

#[test]
fn what_is_asked_for_follows_the_window() {
    let (_, asked) = asking("{ per_window = 8 }", DATAPATH);
    let rates = requests(&asked).expect("requests");
    assert!(rates > 100, "each is sent for a round trip: {rates}");
    // 40 MB are 27,700 segments; the window is 400 of them on average.
    let per_ack = segments_an_ack(&asked);
    assert!(per_ack > 15.0 && per_ack < 127.0, "{per_ack}");
}

#[test]
fn a_receiver_that_is_not_asked_does_as_before() {
    let reported = |more: &str| {
        let arm = format!("{OBEYS}set = {{ n = 3 }}\n{more}");
        let (_, run) = runs(&scenario("", BULK, &arm));
        serde_json::to_value(&run).expect("a record")
    };
    assert_eq!(reported("obey_ack_rate = true\n"), reported(""));
}

#[test]
fn a_sender_does_not_ask_a_receiver_that_does_not_know() {
    let (_, run) = asking("{ segments = 64 }", "set = { n = 4 }\n");
    assert_eq!(requests(&run), None);
    assert!(segments_an_ack(&run) <= 5.0, "{}", segments_an_ack(&run));
}

#[test]
fn one_ack_for_each_segment_needs_the_receiver_s_stack() {
    let (_, stack) = asking("{ segments = 1 }", STACK);
    assert!(segments_an_ack(&stack) < 1.01);
    // An interface can withhold ACKs, but makes none.
    let (_, datapath) = asking("{ segments = 1 }", DATAPATH);
    assert!(segments_an_ack(&datapath) > 1.9);
}

#[test]
fn losses_are_repaired_as_fast() {
    let flow = "app = \"bulk\"\nbytes = \"4 MB\"\nack_rate_request = { segments = 32 }\n";
    let lossy = ", loss = \"0.2 %\"";
    let (unasked, asked) = runs(&scenario(lossy, flow, &format!("{OBEYS}{DATAPATH}")));
    assert_eq!(asked.totals.bytes, 4_000_000);
    assert!(asked.totals.retransmits > 3, "there are losses");
    let timeouts = |run: &Run| run.totals.timeouts;
    assert_eq!(
        timeouts(&asked),
        timeouts(&unasked),
        "no retransmission waits for an ACK"
    );
    let reasons = &asked.datapath.as_ref().expect("a datapath")["b/wan"]["reasons"];
    for reason in ["recovery", "sack"] {
        assert!(reasons[reason].as_u64() > Some(0), "{reasons}");
    }
    let ratio = asked.totals.duration_s / unasked.totals.duration_s;
    assert!(ratio < 1.25, "{ratio}");
}

#[test]
fn the_last_segment_does_not_wait_if_it_asks() {
    let chunks = "app = \"chunks\"\nchunk = \"40 kB\"\nperiod = \"1 s\"\n\
                  model = { initial_window = 64 }\n";
    let slowest = |request: &str| {
        let flow = format!("{chunks}ack_rate_request = {request}\n");
        let (_, run) = runs(&scenario("", &flow, &format!("{OBEYS}{STACK}")));
        run.totals.rtt_us.and_then(|rtt| rtt.max).expect("samples") / 1000.0
    };
    let waits = slowest("{ segments = 20 }");
    let at_once = slowest("{ segments = 20, immediate = true }");
    println!("{waits} {at_once}");
    assert!(waits > at_once + 15.0, "{waits} and {at_once} ms");
}

/// Ayadi's bit. Only the last segment of a window has it, and the datapath lets the requested ACK
/// pass, so a receiver that otherwise waits for 25 ms does not delay the sender.
#[test]
fn the_last_segment_of_a_window_asks_by_a_bit() {
    let once = |model: &str, more: &str| {
        // Ten segments, so that no ACK is news to a sender whose window is full.
        let flow = format!(
            "app = \"bulk\"\nbytes = \"1 MB\"\nmodel = {{ window_limit = \"10 packets\"{model} }}\n"
        );
        let arm = format!("{OBEYS}set = {{ n = 200, warm = 0 }}\n{more}");
        runs(&scenario("", &flow, &arm)).1
    };
    let obeys = "obey_ack_rate = true\n";
    let waits = once("", obeys);
    let bit = ", ask_ack = true, ask_ack_once = true";
    let deaf = once(bit, "");
    let answered = once(bit, obeys);
    // Without `ask_ack_once` each ACK lets one segment leave, which is the last that the window allows.
    let each = once(", ask_ack = true", obeys);
    let time = |run: &Run| run.totals.duration_s;
    assert_eq!(requests(&waits), None, "nobody asks");
    assert_eq!(requests(&deaf), None, "nobody obeys");
    assert!(requests(&answered) > Some(60), "a request for each window");
    for slow in [&waits, &deaf] {
        assert!(time(slow) > 1.15 * time(&answered), "{}", time(slow));
    }
    assert!(
        segments_an_ack(&answered) > 4.5,
        "{}",
        segments_an_ack(&answered)
    );
    assert!(segments_an_ack(&each) < 2.0, "{}", segments_an_ack(&each));
}

#[test]
fn the_record_is_the_same_each_time() {
    let record = || {
        let (_, run) = asking("{ per_window = 4, immediate = true }", DATAPATH);
        serde_json::to_string(&run).expect("a record")
    };
    assert_eq!(record(), record());
}
