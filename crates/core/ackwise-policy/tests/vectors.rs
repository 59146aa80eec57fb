//! Replays policy/vectors natively, and checks that the set is complete.

use std::path::Path;

use ackwise_policy::vectors::{self, parse_contract, parse_packets, parse_policy};
use ackwise_policy::{Event, EventFlags, Policy, PolicyState, Reason};

#[test]
fn every_policy_has_vectors_and_keeps_to_them() {
    let mut wrong = Vec::new();
    for policy in Policy::all() {
        let file = vectors::policy_file(&vectors::directory(), policy);
        let read = match vectors::read_policy(&file) {
            Ok(read) => read,
            Err(e) => {
                wrong.push(format!("{policy}: {e}"));
                continue;
            }
        };
        assert_eq!(
            read.policy,
            policy,
            "{} is for {}",
            file.display(),
            read.policy
        );
        for trace in &read.traces {
            let mut state = PolicyState::default();
            if let Err(e) = trace.replay(|config, event| state.step(config, event)) {
                wrong.push(format!("{policy}.vec {e}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether the vectors of a policy still hold if each event is changed.
fn hold_when(policy: Policy, change: fn(&mut Event)) -> bool {
    let file = vectors::policy_file(&vectors::directory(), policy);
    let read = vectors::read_policy(&file).unwrap_or_else(|e| panic!("{e}"));
    read.traces.iter().all(|trace| {
        let mut state = PolicyState::default();
        let changed = |config: &_, event: &Event| {
            let mut event = *event;
            change(&mut event);
            state.step(config, &event)
        };
        trace.replay(changed).is_ok()
    })
}

/// A policy without `AW_READS_TIME` is shown no time, and its vectors still hold. A policy with it
/// has a verdict that depends on the time; otherwise the flag is needless.
#[test]
fn who_reads_the_time_says_so() {
    for policy in Policy::all() {
        assert_eq!(
            hold_when(policy, |event| event.now_us = 0),
            !policy.reads_time(),
            "{policy}: AW_READS_TIME in its NEEDS?"
        );
    }
}

/// The same for a CPU that is short of time, and `AW_READS_BUSY`.
#[test]
fn who_reads_that_the_cpu_is_busy_says_so() {
    for policy in Policy::all() {
        assert_eq!(
            hold_when(policy, |event| event.flags ^= EventFlags::BUSY),
            !policy.reads_busy(),
            "{policy}: AW_READS_BUSY in its NEEDS?"
        );
    }
}

#[test]
fn every_vectors_file_belongs_to_a_policy_or_the_parser() {
    for entry in std::fs::read_dir(vectors::directory()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "vec") {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            assert!(
                ["parse", "contract"].contains(&name.as_str()) || Policy::by_name(&name).is_ok(),
                "{name}.vec: whose?"
            );
        }
    }
}

#[test]
fn packets_are_read_as_written() {
    let file = vectors::directory().join("parse.vec");
    let cases = vectors::read_packets(&file).unwrap_or_else(|e| panic!("{e}"));
    let wrong: Vec<String> = cases.iter().filter_map(|case| case.check().err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases.len() >= 40, "only {} packets", cases.len());
}

#[test]
fn the_contract_answers_as_written_and_every_reason_is_shown() {
    let file = vectors::directory().join("contract.vec");
    let traces = vectors::read_contract(&file).unwrap_or_else(|e| panic!("{e}"));
    let wrong: Vec<String> = traces.iter().filter_map(|t| t.check().err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    let shown: Vec<Reason> = traces
        .iter()
        .flat_map(|t| t.steps.iter().filter_map(|s| s.expect.map(|e| e.reason)))
        .collect();
    // No policy drops; and lack of room is a matter of the environment, not of the contract.
    let missing: Vec<&str> = Reason::all()
        .filter(|r| !shown.contains(r) && !["dropped", "no-hold"].contains(&r.name()))
        .map(Reason::name)
        .collect();
    assert!(
        missing.is_empty(),
        "contract.vec does not show {}",
        missing.join(", ")
    );
}

/// docs/contract.md names a trace for each reason. The trace exists, and gives that reason.
#[test]
fn the_page_of_the_contract_names_traces_that_show_its_reasons() {
    let page = std::fs::read_to_string(vectors::directory().join("../../docs/contract.md"))
        .expect("docs/contract.md");
    let traces = vectors::read_contract(&vectors::directory().join("contract.vec"))
        .unwrap_or_else(|e| panic!("{e}"));
    let mut listed = Vec::new();
    for row in page.lines().filter(|l| l.starts_with("| `")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let [reason, .., shown_by] = cells[..] else {
            panic!("not a row: {row}");
        };
        let reason = reason.trim_matches(['|', ' ', '`']);
        let shown_by = shown_by.trim_end_matches([' ', '|']);
        let trace = traces
            .iter()
            .find(|t| t.name == shown_by)
            .unwrap_or_else(|| panic!("{reason}: no trace \"{shown_by}\""));
        assert!(
            trace
                .steps
                .iter()
                .any(|s| s.expect.is_some_and(|e| e.reason.name() == reason)),
            "\"{shown_by}\" does not show {reason}"
        );
        listed.push(reason.to_owned());
    }
    // These withhold, or do not come from the contract.
    let others = ["held", "dropped", "policy", "no-hold"];
    let missing: Vec<&str> = Reason::all()
        .map(Reason::name)
        .filter(|r| !others.contains(r) && !listed.iter().any(|l| l == r))
        .collect();
    assert!(missing.is_empty(), "docs/contract.md lacks {missing:?}");
}

/// Replays everything named after a finding of the security review, in all vectors.
fn finding(name: &str) {
    let prefix = format!("{name}: ");
    let directory = vectors::directory();
    let mut checked = Vec::new();
    for trace in vectors::read_contract(&directory.join("contract.vec")).expect("contract.vec") {
        if trace.name.starts_with(&prefix) {
            checked.push(trace.check());
        }
    }
    for packet in vectors::read_packets(&directory.join("parse.vec")).expect("parse.vec") {
        if packet.name.starts_with(&prefix) {
            checked.push(packet.check());
        }
    }
    assert!(!checked.is_empty(), "no vector of {name}");
    for result in checked {
        result.unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn m1_an_ack_that_says_less_does_not_stand_for_one_that_says_more() {
    finding("m1");
}

#[test]
fn m10_an_unacceptable_number_supersedes_nothing() {
    finding("m10");
}

#[test]
fn m11_accecn_is_in_use_if_it_was_granted() {
    finding("m11");
}

#[test]
fn l4_routing_headers_and_source_routes_are_not_understood() {
    finding("l4");
}

#[test]
fn l5_the_counters_of_accecn_are_compared() {
    finding("l5");
}

#[test]
fn l6_a_sender_that_starts_again_gets_every_ack() {
    finding("l6");
}

#[test]
fn s5_a_sender_that_fills_its_window_gets_what_opens_it() {
    finding("s5");
}

#[test]
fn a_wrong_answer_is_found() {
    let text = "trace t\ngrow 12\n+1 ack 13000 -> start\n";
    let read = parse_contract(Path::new("c.vec"), text).unwrap();
    assert_eq!(
        read[0].check().unwrap_err(),
        "line 3 (t): expected start, got held"
    );
    let error = |text: &str| {
        parse_contract(Path::new("c.vec"), text)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(error("grow 3"), "c.vec:1: before the first trace");
    assert_eq!(error("trace t\n+1 ack 5"), "c.vec:2: an ack without ->");
    assert_eq!(
        error("trace t\n+1 ack 5 -> why"),
        "c.vec:2: no reason \"why\""
    );
    assert_eq!(error("trace t\n+1 data"), "c.vec:2: data without seq=");
    assert_eq!(
        error("trace t\n+1 ack 5 flags=ACKS -> held"),
        "c.vec:2: no flag \"ACKS\""
    );
    assert_eq!(
        error("trace t\ngrow 2"),
        "c.vec:0: trace \"t\" expects nothing"
    );
    assert!(error("trace t\nack 3").starts_with("c.vec:2: \"ack 3\" is not trace, policy"));
}

#[test]
fn a_wrong_verdict_is_found() {
    let text = "policy none\ntrace t\n@1 ack -> hold 5\n";
    let read = parse_policy(Path::new("x.vec"), text).unwrap();
    let mut state = PolicyState::default();
    let wrong = read.traces[0]
        .replay(|config, event| state.step(config, event))
        .unwrap_err();
    assert_eq!(wrong.line, 3);
    assert!(
        wrong
            .to_string()
            .starts_with("line 3 (t): expected hold 5, got send")
    );
}

#[test]
fn a_wrong_field_is_found() {
    let ack = "4500 0028 0000 0000 40 06 0000 0a000001 0a000002 \
               0050 1020 00000001 00000002 5010 0001 0000 0000";
    let text = format!("packet p\nlink ip\nhex {ack}\nstatus ok\nack 3\n");
    let cases = parse_packets(Path::new("p.vec"), &text).unwrap();
    assert_eq!(cases[0].check().unwrap_err(), "line 5 (p): ack is 2, not 3");
}

#[test]
fn errors_say_where_and_what() {
    let policy = |text: &str| {
        parse_policy(Path::new("a.vec"), text)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        policy("policy nine\n").split(';').next().unwrap(),
        "a.vec:1: there is no policy \"nine\""
    );
    assert_eq!(policy("# only this\n"), "a.vec:0: no policy line");
    assert_eq!(
        policy("trace t\n"),
        "a.vec:1: the file must begin with: policy <name>"
    );
    assert_eq!(
        policy("policy none\npolicy none\n"),
        "a.vec:2: a second policy line"
    );
    assert_eq!(
        policy("policy none\n@1 ack -> send\n"),
        "a.vec:2: before the first trace"
    );
    let trace = |line: &str| policy(&format!("policy every-n\ntrace t\n{line}\n"));
    assert_eq!(
        trace("param m 3"),
        "a.vec:3: policy every-n has no parameter \"m\"; it has n, warm"
    );
    assert_eq!(
        trace("param n 0"),
        "a.vec:3: every-n: n must be from 1 to 256 segments, not 0"
    );
    assert!(trace("facts rtt=3").starts_with("a.vec:3: no fact \"rtt\""));
    assert!(trace("facts mss=-1").starts_with("a.vec:3: mss: \"-1\" is no number"));
    assert!(trace("1 ack").starts_with("a.vec:3: \"1\" is not policy, trace"));
    assert!(trace("@1 nak").starts_with("a.vec:3: no event \"nak\""));
    assert!(trace("@1 ack syn").starts_with("a.vec:3: \"syn\" is not name=value"));
    assert!(trace("@1 ack size=3").starts_with("a.vec:3: no field \"size\""));
    assert!(trace("@1 ack -> keep").starts_with("a.vec:3: \"-> keep\" is not"));
    assert!(trace("+1 x0 ack -> send").starts_with("a.vec:3: a repetition"));
    assert!(trace("@9 x2 ack -> send").starts_with("a.vec:3: a repetition"));
    assert_eq!(
        trace("@9 ack -> send\n@8 ack -> send"),
        "a.vec:4: the clock runs backwards"
    );
    assert_eq!(trace("@9 ack"), "a.vec:0: trace \"t\" expects nothing");
    assert_eq!(
        trace("@9 ack -> send\nparam n 3"),
        "a.vec:4: parameters come before the events of a trace"
    );
    let packets = |text: &str| {
        parse_packets(Path::new("p.vec"), text)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(packets("hex 00\n"), "p.vec:1: before the first packet");
    assert_eq!(
        packets("packet p\nhex 0\n"),
        "p.vec:2: an odd number of hex digits"
    );
    assert_eq!(
        packets("packet p\nhex 0g\n"),
        "p.vec:2: \"0g\" is not hexadecimal"
    );
    assert_eq!(packets("packet p\nport 3\n"), "p.vec:2: no field \"port\"");
    assert_eq!(
        packets("packet p\nhex 00\n"),
        "p.vec:1: a packet without status"
    );
}

/// DDA's growth lies within the start of a flow. By itself, it acknowledges after segments 1, 3, 6
/// and 10, and then every fourth. Under the contract, the first ACK and those of the next ten
/// segments leave whatever the policy says, and from then on those of every fourth: effectively
/// d = 4.
#[test]
fn the_growth_of_dda_lies_in_the_start_of_a_flow() {
    let config: ackwise_policy::Config = "dda".parse().unwrap();
    let (mut state, mut covered) = (PolicyState::default(), 0);
    let mut alone = Vec::new();
    for segment in 1..=22u32 {
        let held = covered > 0;
        covered += 1;
        let mut event = Event {
            segments: covered,
            bytes: 1000 * covered,
            mss: 1000,
            hold_us: 500_000,
            ..Event::ack(u64::from(segment) * 10_000)
        };
        event.flags.set(ackwise_policy::EventFlags::HOLDING, held);
        if state.step(&config, &event) == ackwise_policy::Verdict::Send {
            alone.push(segment);
            covered = 0;
        }
    }
    assert_eq!(alone, [1, 3, 6, 10, 14, 18, 22]);

    let mut text = "trace dda\n policy dda\n handshake wscale=7 mss=1000\n\
                    +100 data seq=0 payload=23000 segments=23\n"
        .to_owned();
    for segment in 1..=23 {
        let answer = match segment {
            1 => "first",
            2..=11 => "start",
            15 | 19 | 23 => "policy supersedes",
            _ => "held",
        };
        text.push_str(&format!("+100 ack {}000 -> {answer}\n", segment));
    }
    let traces = parse_contract(Path::new("dda"), &text).unwrap_or_else(|e| panic!("{e}"));
    traces[0].check().unwrap_or_else(|e| panic!("{e}\n{text}"));
}
