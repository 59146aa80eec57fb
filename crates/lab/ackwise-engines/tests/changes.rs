//! A link whose rate and delay change, on the running kernel.

mod common;

use ackwise_engines::live::RunOptions;
use ackwise_engines::topology::LinkBackend;
use common::{BULK, lock_tests, only, run_with, two_hosts};

/// 8 Mbit/s, then 2, with an outage each second; a mean of at most 5 Mbit/s.
const LINK: &str = r#"
forward = { rate = { steps = [["0 s", "8 Mbit/s"], ["1 s", "2 Mbit/s"]], repeat = "2 s" }, delay = { handover = { every = "1 s", delay = ["5 ms", "15 ms"], outage = "100 ms" } }, queue = "50 packets" }
reverse = { rate = "10 Mbit/s", delay = "5 ms" }
"#;

#[test]
fn a_link_carries_no_more_than_its_steps() {
    let _lock = lock_tests();
    let scenario = two_hosts("4 s", LINK, BULK);
    let run = only(run_with(&scenario, &RunOptions::default()));
    assert_eq!(run.errors, Vec::<String>::new());
    assert!(run.totals.content.as_ref().unwrap().ok);
    // A machine that delivers late does not deliver more. The 50 packets in the queue at the end of
    // the run still count, and so does the half second for which a busy machine may fail to stop
    // the flow.
    let carried = 2.0 * (8e6 + 2e6) - 0.1 * (2e6 + 8e6 + 2e6);
    let most = (carried + 0.5 * 8e6) / 8.0 + 51.0 * 1514.0;
    let bytes = run.totals.bytes as f64;
    assert!(bytes > 0.2 * most && bytes <= most, "{bytes} of {most}");
}

#[test]
fn the_kernel_s_own_links_refuse_it() {
    let _lock = lock_tests();
    let scenario = two_hosts("1 s", LINK, BULK);
    let options = RunOptions {
        backend: LinkBackend::Netem,
        ..RunOptions::default()
    };
    let error = ackwise_engines::live::run(&scenario, &options, &mut |_| {}).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("`rate`") && message.contains("use the emulator"),
        "{message}"
    );
}

#[test]
fn a_wi_fi_carries_no_more_than_its_airtime() {
    let _lock = lock_tests();
    let link = r#"
duplex = "half"
wifi = { frames = 1 }
both = { rate = "65 Mbit/s", delay = "2 ms", queue = "50 packets" }
"#;
    let run = only(run_with(
        &two_hosts("2 s", link, BULK),
        &RunOptions::default(),
    ));
    assert_eq!(run.errors, Vec::<String>::new());
    assert!(run.totals.content.as_ref().unwrap().ok);
    // Even without back-off a segment takes 43 + 228 + 16 + 28 us of the medium.
    let most = 2e6 / 315.0 * 1448.0 + 51.0 * 1448.0;
    let bytes = run.totals.bytes as f64;
    assert!(bytes > 0.1 * most && bytes <= most, "{bytes} of {most}");
}
