//! The Rust interface: names, parameters, environments, and a flow under the contract.

use std::collections::BTreeSet;
use std::path::Path;

use ackwise_policy::{
    Capabilities, Config, ConfigError, Flow, FlowConfig, Handshake, LinkKind, Policy, Reason,
    Segment, TcpFlags, Verdict, parse, sys,
};

/// The text of a file in the repository.
fn text_of(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let read = std::fs::read_to_string(root.join(path));
    read.unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The names of the files in a directory of the repository that end in `end`, without this ending.
fn names_in(directory: &str, end: &str) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let files = std::fs::read_dir(root.join(directory));
    files
        .unwrap_or_else(|e| panic!("{directory}: {e}"))
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(end).map(str::to_owned))
        .collect()
}

/// Finds a policy that was renamed or lost, or whose header, vectors or page is missing: all of
/// them have the same names.
#[test]
fn headers_vectors_and_pages_have_the_names_of_the_policies() {
    let names: Vec<&str> = Policy::all().map(Policy::name).collect();
    assert_eq!(names.len(), sys::AW_POLICIES as usize);
    let headers: Vec<String> = text_of("policy/include/ackwise/policies.def")
        .lines()
        .filter_map(|line| {
            line.strip_prefix("#include \"policies/")?
                .strip_suffix(".h\"")
        })
        .map(|ident| ident.replace('_', "-"))
        .collect();
    assert_eq!(names, headers, "policies.def");

    let names: BTreeSet<String> = names.into_iter().map(str::to_owned).collect();
    let header_files = names_in("policy/include/ackwise/policies", ".h");
    let idents = names.iter().map(|name| name.replace('-', "_")).collect();
    assert_eq!(header_files, idents, "policy/include/ackwise/policies");
    let mut vectors = names_in("policy/vectors", ".vec");
    for general in ["contract", "parse"] {
        assert!(vectors.remove(general), "{general}.vec");
    }
    assert_eq!(vectors, names, "policy/vectors");
    let mut pages = names_in("docs/policies", ".md");
    assert!(pages.remove("README"));
    assert_eq!(pages, names, "docs/policies");
    // The table of policies; docs/SUMMARY.md is checked by scripts/lint-links.
    let readme = text_of("docs/policies/README.md");
    for name in &names {
        let rows = readme
            .matches(&format!("\n| [{name}]({name}.md) |"))
            .count();
        assert_eq!(rows, 1, "rows for {name} in docs/policies/README.md");
    }
}

#[test]
fn metadata_is_complete() {
    for policy in Policy::all() {
        assert_eq!(Policy::by_name(policy.name()), Ok(policy));
        assert_eq!(Policy::from_id(policy.id()), Some(policy));
        assert!(
            policy.summary().len() > 10 && policy.source().len() > 5,
            "{policy}"
        );
        for (i, param) in policy.params().iter().enumerate() {
            assert_eq!(param.index, i, "{policy}: {}", param.name);
            assert!(
                param.min <= param.default && param.default <= param.max,
                "{policy}: {param:?}"
            );
            assert!(param.doc.len() > 10, "{policy}: {}", param.name);
            let unique = policy
                .params()
                .iter()
                .filter(|p| p.name == param.name)
                .count();
            assert_eq!(unique, 1, "{policy}: {}", param.name);
        }
    }
    assert_eq!(Policy::from_id(sys::AW_POLICIES), None);
}

#[test]
fn every_policy_has_a_page_that_names_its_parameters() {
    for policy in Policy::all() {
        let text = text_of(&format!("docs/policies/{policy}.md"));
        for param in policy.params() {
            let cell = format!("`{}`", param.name);
            assert!(text.contains(&cell), "{policy}.md does not mention {cell}");
        }
    }
}

#[test]
fn reasons_have_names() {
    let names: Vec<&str> = Reason::all().map(Reason::name).collect();
    assert_eq!(names.len(), sys::AW_REASON_COUNT as usize);
    assert_eq!(names[..3], ["held", "dropped", "policy"]);
    assert!(Reason::all().all(|r| !r.what().is_empty() && Reason::from_id(r.id()) == Some(r)));
    assert_eq!(Reason::from_id(sys::AW_REASON_COUNT), None);
}

#[test]
fn parameters_are_set_by_name_within_their_range() {
    let mut config = Config::new(Policy::by_name("every-n").unwrap());
    assert_eq!(config.get("n"), Ok(8));
    config.set("n", " 16 ").unwrap();
    assert_eq!(config.get("n"), Ok(16));
    assert_eq!(config.to_string(), "every-n:n=16,warm=16");
    assert_eq!(config.to_string().parse(), Ok(config));

    let said = |e: Result<(), ConfigError>| e.unwrap_err().to_string();
    assert_eq!(
        said(config.set("m", "1")),
        "policy every-n has no parameter \"m\"; it has n, warm"
    );
    assert_eq!(
        said(config.set("n", "257")),
        "every-n: n must be from 1 to 256 segments, not 257"
    );
    assert_eq!(
        said(config.set("n", "0")),
        "every-n: n must be from 1 to 256 segments, not 0"
    );
    assert_eq!(
        said(config.set("n", "-1")),
        "every-n: n must be a whole number, not \"-1\""
    );
    assert_eq!(
        said(config.set("n", "99999999999")),
        "every-n: n must be from 1 to 256 segments, not 99999999999"
    );
    assert_eq!(config.get("n"), Ok(16), "an error changes nothing");
    let mut none = Config::new(Policy::by_name("none").unwrap());
    assert_eq!(
        said(none.set("n", "1")),
        "policy none has no parameter \"n\"; it has none"
    );
    assert_eq!(none.to_string(), "none");
    let parse = |text: &str| text.parse::<Config>().map(|_| ());
    assert!(
        said(parse("evry-n")).starts_with("there is no policy \"evry-n\"; the policies are none,")
    );
    assert!(said(parse("every-n:n")).starts_with("\"n\" is not name=value"));
}

#[test]
fn an_environment_that_cannot_run_a_policy_is_told_why() {
    let policy = |name| Policy::by_name(name).unwrap();
    let router = Capabilities::DATAPATH;
    for p in Policy::all() {
        let makes_acks = p.needs().contains(Capabilities::MAKE_ACKS);
        assert_eq!(p.check(router).is_err(), makes_acks, "{p}");
        assert_eq!(p.check(router | Capabilities::MAKE_ACKS), Ok(()));
    }
    let literal = policy("rate-limit-literal").check(router).unwrap_err();
    assert_eq!(literal.missing, Capabilities::MAKE_ACKS);
    assert_eq!(policy("none").check(Capabilities::empty()), Ok(()));
    let why = policy("rate-limit").check(Capabilities::HOLD).unwrap_err();
    assert_eq!(
        why.to_string(),
        "policy rate-limit has to see the data, which this environment cannot; it can hold ACKs"
    );
    let why = policy("rate-limit")
        .check(Capabilities::empty())
        .unwrap_err();
    assert_eq!(why.missing, router);
    assert!(why.to_string().ends_with("it can nothing"), "{why}");
    // A receiver need not hold: it makes the ACK later.
    assert_eq!(policy("tack").check(Capabilities::MAKE_ACKS), Ok(()));
}

const MSS: u32 = 1000;

fn segment(flags: TcpFlags, seq: u32, ack: u32, payload: u32) -> Segment {
    Segment::from_raw(sys::aw_seg {
        ip_version: 4,
        ttl: 64,
        flags: flags.bits(),
        seq,
        ack,
        payload,
        len: 40 + payload,
        window: 60_000,
        ce_bytes: u32::MAX,
        e0_bytes: u32::MAX,
        e1_bytes: u32::MAX,
        ..Default::default()
    })
}

fn every_n(n: u32) -> FlowConfig {
    FlowConfig::new(&format!("every-n:n={n},warm=0").parse().unwrap())
}

/// A flow that has acknowledged 20 segments, the last with number 20000. 16 more have arrived.
fn grown(config: &FlowConfig) -> Flow {
    let mut handshake = Handshake::default();
    handshake.on_segment(&segment(TcpFlags::SYN, u32::MAX, 0, 0), false, 1_000);
    handshake.on_segment(
        &segment(TcpFlags::SYN | TcpFlags::ACK, 0, 0, 0),
        true,
        21_000,
    );
    handshake.on_segment(&segment(TcpFlags::ACK, 0, 1, 0), false, 41_000);
    let mut flow = Flow::new(Some(&handshake), 41_000);
    for i in 0..20 {
        flow.on_data(config, &segment(TcpFlags::ACK, i * MSS, 1, MSS), 1, 42_000);
        flow.on_ack(config, &segment(TcpFlags::ACK, 1, (i + 1) * MSS, 0), 43_000);
    }
    let more = segment(TcpFlags::ACK, 20 * MSS, 1, 16 * MSS);
    flow.on_data(config, &more, 16, 43_000);
    flow
}

#[test]
fn a_flow_holds_supersedes_and_lets_go() {
    let config = every_n(4);
    let mut flow = grown(&config);
    assert_eq!(
        flow.min_rtt_us(),
        Some(40_000),
        "both legs of the handshake"
    );
    assert_eq!(
        flow.hold_us(&config),
        8_192,
        "a quarter of it, rounded down to a length"
    );
    let ack = |n: u32| segment(TcpFlags::ACK, 1, n * MSS, 0);

    // Advance the count to a departure, so that the rest starts afresh.
    let mut n = 20;
    loop {
        n += 1;
        if flow.on_ack(&config, &ack(n), 44_000).verdict == Verdict::Send {
            break;
        }
    }
    let held = flow.on_ack(&config, &ack(n + 1), 44_100);
    assert_eq!(held.verdict, Verdict::Hold { us: 8_192 });
    assert_eq!(held.reason.name(), "held");
    flow.on_ack(&config, &ack(n + 2), 44_200);
    flow.on_ack(&config, &ack(n + 3), 44_300);
    let left = flow.on_ack(&config, &ack(n + 4), 44_400);
    assert_eq!(
        (left.verdict, left.reason.name()),
        (Verdict::Send, "policy")
    );
    assert!(left.supersedes && !left.twice);

    // Held, and sent at the deadline: the next departure replaces nothing.
    let late = ack(n + 5);
    assert_eq!(flow.on_ack(&config, &late, 44_500).reason.name(), "held");
    flow.on_sent(&config, &late, 54_500);
    let fin = flow.on_ack(
        &config,
        &segment(TcpFlags::FIN | TcpFlags::ACK, 1, (n + 5) * MSS, 0),
        54_600,
    );
    assert_eq!((fin.verdict, fin.reason.name()), (Verdict::Send, "flags"));
    assert!(!fin.supersedes);
}

/// A flow whose round trip is known from the handshake.
fn with_rtt(us: u64) -> Flow {
    let mut handshake = Handshake::default();
    handshake.on_segment(&segment(TcpFlags::SYN, u32::MAX, 0, 0), false, 1_000);
    let answer = segment(TcpFlags::SYN | TcpFlags::ACK, 0, 0, 0);
    handshake.on_segment(&answer, true, 1_000 + us);
    handshake.on_segment(&segment(TcpFlags::ACK, 0, 1, 0), false, 1_000 + us);
    Flow::new(Some(&handshake), 1_000 + us)
}

/// With Fast Open a server sends data before the client's ACK arrives. Beside the server every later
/// sample echoes the newest ACK, and may only lower the minimum: one that is too short stays.
#[test]
fn data_before_the_clients_ack_are_no_round_trip() {
    let mut handshake = Handshake::default();
    handshake.on_segment(&segment(TcpFlags::SYN, u32::MAX, 0, 0), true, 1_000);
    let answer = segment(TcpFlags::SYN | TcpFlags::ACK, u32::MAX, 0, 0);
    handshake.on_segment(&answer, false, 1_100);
    handshake.on_segment(&segment(TcpFlags::ACK, 0, 0, MSS), false, 1_200);
    let early = Flow::new(Some(&handshake), 1_200);
    assert_eq!(early.min_rtt_us(), None);
    handshake.on_segment(&segment(TcpFlags::ACK, 0, MSS, 0), true, 41_000);
    let flow = Flow::new(Some(&handshake), 41_000);
    assert_eq!(flow.min_rtt_us(), Some(40_000));
}

/// The client's ACK is lost beside a server that speaks first, and a second later the SYN-ACK is sent
/// again. The time between the two is a timeout, not part of the round trip.
#[test]
fn a_syn_ack_that_is_sent_again_is_no_round_trip() {
    for acks in [true, false] {
        let mut handshake = Handshake::default();
        handshake.on_segment(&segment(TcpFlags::SYN, u32::MAX, 0, 0), !acks, 1_000);
        let answer = segment(TcpFlags::SYN | TcpFlags::ACK, u32::MAX, 0, 0);
        for sent in [6_000, 1_006_000, 3_006_000] {
            handshake.on_segment(&answer, acks, sent);
        }
        handshake.on_segment(&segment(TcpFlags::ACK, 0, 0, 0), !acks, 3_041_000);
        let flow = Flow::new(Some(&handshake), 3_041_000);
        assert_eq!(flow.min_rtt_us(), Some(40_000));
    }
}

#[test]
fn a_hold_is_a_bound_or_one_of_four_lengths_an_octave() {
    let config = every_n(4);
    let holds = config.holds();
    assert_eq!(
        holds,
        [
            1_000, 1_024, 1_280, 1_536, 1_792, 2_048, 2_560, 3_072, 3_584, 4_096, 5_120, 6_144,
            7_168, 8_192, 10_240, 12_288, 14_336, 16_384, 20_480, 24_576, 25_000
        ]
    );
    for (min, max, shift) in [(1_000, 25_000, 2), (1_700, 300_000, 1), (5_000, 5_000, 3)] {
        let config = config.with_hold(min, max, shift);
        let holds = config.holds();
        for rtt in (100..2_000_000).step_by(617) {
            let flow = with_rtt(rtt);
            let exact = (flow.min_rtt_us().expect("a handshake") >> shift).clamp(min, max);
            let hold = flow.hold_us(&config);
            assert!(holds.contains(&hold), "{rtt} us: {hold}");
            assert!(hold <= exact, "{rtt} us: {hold} is above {exact}");
            assert!(hold * 5 >= exact * 4, "{rtt} us: {hold} of {exact}");
            assert!(exact != min || hold == min, "{rtt} us: {hold}");
            assert!(exact != max || hold == max, "{rtt} us: {hold}");
        }
    }
}

#[test]
fn a_duplicate_of_a_held_ack_leaves_twice() {
    let config = every_n(200);
    let mut flow = grown(&config);
    let ack = segment(TcpFlags::ACK, 1, 21 * MSS, 0);
    assert_eq!(flow.on_ack(&config, &ack, 44_000).reason.name(), "held");
    let again = flow.on_ack(&config, &ack, 44_100);
    assert_eq!(
        (again.verdict, again.reason.name()),
        (Verdict::Send, "duplicate")
    );
    assert!(again.supersedes && again.twice);
}

#[test]
fn a_segment_without_ack_replaces_nothing() {
    let config = every_n(200);
    let mut flow = grown(&config);
    let ack = segment(TcpFlags::ACK, 1, 21 * MSS, 0);
    assert_eq!(flow.on_ack(&config, &ack, 44_000).reason.name(), "held");
    // Its number is higher, but does not count.
    let reset = segment(TcpFlags::RST, 1, 22 * MSS, 0);
    let sent = flow.on_ack(&config, &reset, 44_100);
    assert_eq!((sent.verdict, sent.supersedes), (Verdict::Send, false));
    let next = flow.on_ack(&config, &segment(TcpFlags::ACK, 1, 22 * MSS, 0), 44_200);
    assert_eq!(next.reason.name(), "held", "and is not remembered");
}

#[test]
fn a_fresh_flow_lets_its_start_out() {
    let config = every_n(200);
    let mut flow = Flow::new(None, 0);
    let mut held_at = None;
    for i in 1..40 {
        flow.on_data(
            &config,
            &segment(TcpFlags::ACK, i * MSS, 1, MSS),
            1,
            u64::from(i) * 100,
        );
        let said = flow.on_ack(
            &config,
            &segment(TcpFlags::ACK, 1, i * MSS, 0),
            u64::from(i) * 100,
        );
        if said.verdict != Verdict::Send {
            held_at = Some(i);
            break;
        }
    }
    // The first is the start of the count; ten segments after it pass.
    assert_eq!(held_at, Some(12));
    assert_eq!(
        flow.hold_us(&config),
        1_000,
        "the round-trip time is not known"
    );
}

#[test]
fn what_is_not_tcp_is_an_error() {
    assert_eq!(
        parse(&[], LinkKind::Ip).unwrap_err().to_string(),
        "the bytes end before the headers do"
    );
    assert_eq!(
        parse(&[0; 60], LinkKind::Ethernet).unwrap_err().to_string(),
        "not TCP"
    );
}
