//! Writes the page of a made-up record of a shipped scenario to standard output, for inspection:
//! `cargo run --example sample_page asymmetric > /tmp/x.html`.

#[path = "../tests/support/mod.rs"]
mod support;

fn main() {
    let name = std::env::args().nth(1).unwrap_or("asymmetric".to_owned());
    let report = support::record(&support::scenario(&name));
    let options = ackwise_report::TableOptions::default();
    eprint!("{}", ackwise_report::table(&report, &options));
    print!("{}", ackwise_report::html(&report));
}
