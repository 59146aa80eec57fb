//! Every kind of traffic over every kind of link, on the running kernel.

mod common;

use common::{BULK, assert_sound, run, run_two, scenario};

#[test]
fn bulk_over_an_asymmetric_link() {
    let run = run_two(
        "3 s",
        r#"forward = { rate = "50 Mbit/s", delay = "20 ms", queue = "256 packets" }
           reverse = { rate = "200 kbit/s", delay = "20 ms", queue = "100 packets" }"#,
        BULK,
    );
    assert_sound(&run, 50e6, 40_000.0);
    assert!(run.totals.goodput_bps > 1e6, "{}", run.totals.goodput_bps);
    assert_eq!(run.flow.as_deref(), Some("bulk"));

    // The thin uplink cannot carry more than this, whatever the counters say.
    let ack_bits = (run.totals.ack_bytes_on_wire.unwrap() + 14 * run.totals.acks_on_wire) * 8;
    let most = 200e3 * (run.totals.duration_s + 1.0) + 100.0 * 100.0 * 8.0;
    assert!(
        ack_bits as f64 <= most,
        "{ack_bits} bits of ACKs, at most {most}"
    );

    let queue = run
        .queues
        .iter()
        .find(|queue| queue.name == "wan.reverse")
        .unwrap();
    assert!(queue.max_packets.unwrap() <= 100);
    assert!(queue.arrivals.unwrap() >= run.totals.acks_on_wire);
    assert!(run.link_lateness_us.unwrap().count.unwrap() > 1000);
    let series = run.totals.series.as_ref().unwrap();
    // A busy machine omits samples; their number is pinned in virtual time.
    assert!(!series.t_s.is_empty());
    assert!(series.t_s.is_sorted(), "{:?}", series.t_s);
    for (name, column) in series.columns() {
        assert_eq!(column.len(), series.t_s.len(), "{name}");
    }
    // Both ends of the emulated link and both applications have work.
    for node in &run.nodes {
        assert!(node.cpu_process_s.unwrap() > 0.0, "{node:?}");
        assert!(node.cpu_stack_s.unwrap() > 0.0, "{node:?}");
    }
}

/// Where `ip` expects a keyword, it also accepts its abbreviation.
#[test]
fn a_link_may_be_called_what_ip_has_a_word_for() {
    for (name, both) in [("a", "{ rate = \"50 Mbit/s\" }"), ("up", "{}")] {
        let network = format!(
            r#"
            [[node]]
            name = "sender"
            [[node]]
            name = "receiver"
            [[link]]
            name = "{name}"
            between = ["sender", "receiver"]
            both = {both}
            {BULK} bytes = "100 kB"
            "#
        );
        let run = run(&scenario("10 s", &network));
        assert_eq!(run.totals.bytes, 100_000, "{name}");
    }
}

#[test]
fn a_size_instead_of_a_time() {
    let flow = format!("{BULK} bytes = \"3 MB\"\n connections = 2");
    let run = run_two(
        "30 s",
        r#"both = { rate = "50 Mbit/s", delay = "5 ms" }"#,
        &flow,
    );
    assert_sound(&run, 50e6, 10_000.0);
    assert_eq!(run.totals.bytes, 6_000_000);
    assert!(run.totals.duration_s < 20.0);
}

#[test]
fn loss_duplicates_and_reordering_change_no_byte() {
    let run = run_two(
        "4 s",
        r#"both = { rate = "20 Mbit/s", delay = "10 ms", loss = "1 %", duplicate = "1 %", reorder = { probability = "2 %", delay = "5 ms" } }"#,
        BULK,
    );
    assert_sound(&run, 20e6, 20_000.0);
    assert!(run.totals.retransmits > 0);
    assert!(run.totals.acks.unwrap().sack > 0);
    for queue in &run.queues {
        assert!(queue.losses.unwrap() > 0, "{queue:?}");
    }
}

#[test]
fn ipv6_over_router_and_bridge() {
    let text = r#"
        [[node]]
        name = "sender"
        [[node]]
        name = "bridge"
        kind = "bridge"
        [[node]]
        name = "near"
        kind = "router"
        [[node]]
        name = "far"
        kind = "router"
        [[node]]
        name = "receiver"
        [[link]]
        name = "lan"
        between = ["sender", "bridge"]
        [[link]]
        name = "uplink"
        between = ["bridge", "near"]
        offload = false
        [[link]]
        name = "wan"
        between = ["near", "far"]
        both = { rate = "20 Mbit/s", delay = "10 ms" }
        [[link]]
        name = "home"
        between = ["receiver", "far"]
        both = { delay = "1 ms" }
        [[flow]]
        name = "six"
        from = "sender"
        to = "receiver"
        app = "bulk"
        [flow.socket]
        ip = 6
        [[flow]]
        name = "four"
        from = "receiver"
        to = "sender"
        app = "bulk"
    "#;
    let run = run(&scenario("3 s", text));
    assert_eq!(run.flows.len(), 2);
    for flow in &run.flows {
        let traffic = &flow.traffic;
        assert!(traffic.content.as_ref().unwrap().ok, "{flow:?}");
        assert!(
            traffic.goodput_bps > 5e5 && traffic.goodput_bps < 20e6,
            "{flow:?}"
        );
        assert!(traffic.rtt_us.unwrap().min.unwrap() >= 22_000.0);
        assert!(traffic.acks_on_wire > 0);
    }
    assert_eq!(
        run.totals.bytes,
        run.flows.iter().map(|flow| flow.traffic.bytes).sum::<u64>()
    );
    // Both emulated links, in both directions.
    assert_eq!(run.queues.len(), 4);
}

#[test]
fn bulk_over_plain_veth_is_sniffed() {
    for offload in [true, false] {
        let flow = format!("{BULK} bytes = \"20 MB\"");
        let run = run_two("20 s", &format!("offload = {offload}"), &flow);
        assert_sound(&run, 1e12, 1.0);
        assert_eq!(run.totals.bytes, 20_000_000);
        assert!(run.queues.is_empty());
        // Super-segments count as the segments that they would be on a wire.
        let least = 20_000_000 / 1460;
        assert!(
            run.totals.data_segments < least * 2,
            "{}",
            run.totals.data_segments
        );
    }
}

#[test]
fn short_flows_are_timed() {
    let flow = r#"
        [[flow]]
        name = "web"
        from = "sender"
        to = "receiver"
        app = "short-flows"
        sizes = ["1 B", "10 kB", "100 kB"]
        count = 15
        connections = 3
    "#;
    let run = run_two(
        "30 s",
        r#"both = { rate = "50 Mbit/s", delay = "10 ms" }"#,
        flow,
    );
    let completion = run.totals.completion.as_ref().unwrap();
    assert_eq!((completion.count, completion.unfinished), (45, 0));
    assert_eq!(run.totals.bytes, 15 * (1 + 10_000 + 100_000));
    assert!(run.totals.content.as_ref().unwrap().ok);
    let sizes: Vec<u64> = completion.by_size.iter().map(|size| size.bytes).collect();
    assert_eq!(sizes, [1, 10_000, 100_000]);
    for size in &completion.by_size {
        assert_eq!(size.count, 15);
        // The handshake takes a round trip, and the data take half of another.
        assert!(size.time_us.min.unwrap() >= 30_000.0, "{size:?}");
    }
    // 100 kB do not fit the initial window of 10 segments.
    assert!(completion.by_size[2].time_us.min.unwrap() >= 50_000.0);
    assert!(run.totals.rtt_us.unwrap().min.unwrap() >= 20_000.0);
}

#[test]
fn requests_are_answered_and_timed() {
    let flow = r#"
        [[flow]]
        name = "rpc"
        from = "sender"
        to = "receiver"
        app = "request-response"
        request = "1 kB"
        response = "20 kB"
        count = 20
        connections = 2
    "#;
    let run = run_two(
        "30 s",
        r#"both = { rate = "50 Mbit/s", delay = "10 ms" }"#,
        flow,
    );
    let completion = run.totals.completion.as_ref().unwrap();
    assert_eq!((completion.count, completion.unfinished), (40, 0));
    assert!(completion.time_us.min.unwrap() >= 20_000.0);
    assert_eq!(run.totals.bytes, 40 * 20_000);
    let sizes: Vec<u64> = completion.by_size.iter().map(|size| size.bytes).collect();
    assert_eq!(sizes, [20_000], "as the simulator has it: the answer");
    assert!(run.totals.content.as_ref().unwrap().ok);
    // Responses are data from sender to receiver, 14 segments each.
    assert!(run.totals.data_segments >= 40 * 14);
    assert!(run.totals.acks_on_wire > 0);
}

#[test]
fn the_shares_of_two_flows_are_compared() {
    let flows = ["one", "two"].map(|name| {
        let named = BULK.replace("name = \"bulk\"", &format!("name = \"{name}\""));
        format!("{named} bytes = \"1 MB\"\n")
    });
    let link = r#"both = { rate = "20 Mbit/s", delay = "5 ms" }"#;
    let run = run_two("30 s", link, &flows.concat());
    let rates: Vec<f64> = run.flows.iter().map(|it| it.traffic.goodput_bps).collect();
    let [a, b] = rates[..] else {
        panic!("{rates:?}")
    };
    let jain = run.totals.jain.unwrap();
    let expected = (a + b).powi(2) / (2.0 * (a * a + b * b));
    assert!((jain - expected).abs() < 1e-9, "{jain}, {rates:?}");
}

#[test]
fn iperf3_is_measured_too() {
    let flow = r#"
        [[flow]]
        name = "iperf"
        from = "sender"
        to = "receiver"
        app = "iperf3"
        connections = 2
    "#;
    let run = run_two(
        "3 s",
        r#"both = { rate = "20 Mbit/s", delay = "10 ms" }"#,
        flow,
    );
    let totals = &run.totals;
    assert!(
        totals.goodput_bps > 1e6 && totals.goodput_bps <= 20e6,
        "{totals:?}"
    );
    assert!(totals.rtt_us.unwrap().min.unwrap() >= 20_000.0);
    assert!(totals.acks_on_wire > 0 && totals.data_segments >= totals.bytes / 1460);
    assert!(totals.content.is_none(), "iperf3 checks nothing");
    let goodput = &totals.series.as_ref().unwrap().goodput_bps;
    assert!(goodput.iter().flatten().any(|&rate| rate > 0.0));
    assert!(
        run.nodes
            .iter()
            .all(|node| node.cpu_process_s.unwrap() > 0.0)
    );
}

#[test]
fn tcp_options_are_as_asked() {
    let link = r#"both = { rate = "20 Mbit/s", delay = "5 ms", loss = "1 %" }"#;
    let with = |options: &str| {
        let flow = format!("{BULK} bytes = \"2 MB\"\n[flow.socket]\n{options}");
        let run = run_two("30 s", link, &flow);
        assert_sound(&run, 20e6, 10_000.0);
        run
    };
    let without_sack = with("sack = false\ntimestamps = false");
    assert_eq!(without_sack.totals.acks.unwrap().sack, 0);
    // An ACK without any option is 40 bytes.
    assert_eq!(
        without_sack.totals.ack_bytes_on_wire.unwrap(),
        without_sack.totals.acks_on_wire * 40
    );
    let with_timestamps = with("timestamps = true");
    assert!(
        with_timestamps.totals.ack_bytes_on_wire.unwrap()
            >= with_timestamps.totals.acks_on_wire * 52
    );
    with("ecn = true\nwindow_scaling = false");
    with("mptcp = true");
}
