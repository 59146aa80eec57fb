//! What a simulated experiment gives, to the packet.

use ackwise_scenario::Scenario;
use ackwise_sim::RunOptions;

/// Fig. 2 of Saldana, its first 100 s: the numbers that its averages come from.
#[test]
fn saldana_figure_2_is_exact() {
    let text = include_str!("../../../scenarios/papers/saldana-2013/single.toml")
        .replace("\"1000 s\"", "\"100 s\"");
    let scenario = Scenario::parse("single.toml", &text).unwrap_or_else(|e| panic!("{e}"));
    let report = ackwise_sim::run(&scenario, &RunOptions::default(), &mut |_| {}).unwrap();
    let counts: Vec<_> = report
        .runs
        .iter()
        .map(|run| {
            (
                run.arm.as_str(),
                run.totals.data_segments,
                run.totals.retransmits,
            )
        })
        .collect();
    assert_eq!(
        counts,
        [("baseline", 76_988, 242), ("mux-50ms", 65_377, 241)]
    );
}
