//! A policer in virtual time: the emulator has it, whatever else the kernel could do.

mod virtually;

use ackwise_scenario::record::{QueueRecord, Run};
use virtually::{BASELINE, run, turn, two_hosts};

fn uplink(run: &Run) -> &QueueRecord {
    let found = run.queues.iter().find(|queue| queue.name == "wan.reverse");
    found.unwrap()
}

#[test]
fn four_of_five_acks_are_dropped_and_the_transfer_goes_on() {
    let _turn = turn();
    let link = r#"
forward = { rate = "10 Mbit/s", delay = "5 ms", queue = "60 packets" }
reverse = { rate = "10 Mbit/s", delay = "5 ms", queue = "60 packets" }"#;
    let policed = "[[arm]]\nname = \"policed\"\nchange = { \"link.wan.reverse.police\" = \
                   { drop = \"80 %\", mode = \"even\" } }\n";
    let arms = format!("{BASELINE}{policed}");
    let scenario = two_hosts("3 s", link, "app = \"bulk\"", &arms);
    let report = run(&scenario);
    let [whole, policed] = &report.runs[..] else {
        panic!("{} runs", report.runs.len());
    };
    assert_eq!(uplink(whole).policed.unwrap_or(0), 0);
    let queue = uplink(policed);
    let (dropped, passed) = (queue.policed.unwrap(), queue.arrivals.unwrap());
    assert!(dropped > 200, "{queue:?}");
    // Even: each fifth pure ACK passes, and what is none (a SYN, a FIN) besides.
    assert!(
        (4 * passed - 20..=4 * passed).contains(&dropped),
        "{dropped} dropped, {passed} passed"
    );
    let share = policed.totals.goodput_bps / whole.totals.goodput_bps;
    assert!(share > 0.9, "{share}");
    assert!(policed.totals.content.as_ref().unwrap().ok);
    // The same again, to the packet.
    assert_eq!(run(&scenario).to_json().unwrap(), report.to_json().unwrap());
}
