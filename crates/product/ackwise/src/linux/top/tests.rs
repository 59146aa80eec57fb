//! Compares screens, as text, with the files in `snapshots/`. `ACKWISE_BLESS=1` regenerates them.

use std::path::Path;
use std::time::Duration;

use ackwise_datapath::control::Status;
use ackwise_datapath::{FlowStats, Stats};
use ackwise_tunneld::{Amount, PeerStats};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

use super::app::{App, Next, SortBy};
use super::measures::between;
use super::snapshot::{Backlog, Counters, Id, Kind, MAX_FLOWS, Snapshot, Source};
use super::view::draw;

fn flow(n: u64, second: u64) -> FlowStats {
    FlowStats {
        ack_sender: format!("192.0.2.2:{}", 50_000 + n),
        data_sender: "198.51.100.7:443".to_owned(),
        acks: second * 100 * (n + 1),
        passed: second * 20 * (n + 1),
        withheld: second * 80 * (n + 1),
        reemitted: second * 5 * (n + 1),
        packets_saved: second * 75 * (n + 1),
        bytes_saved: second * 75 * 52 * (n + 1),
        data_segments: second * 200 * (n + 1),
        data_bytes: second * 280_000 * (n + 1),
        srtt_us: 30_000 - 1_000 * n as u32,
        mss: 1400,
        data_window: 65_535,
        idle_ms: n,
    }
}

fn attachment(second: u64) -> Source {
    let flows: Vec<_> = (0..3).map(|n| flow(n, second)).collect();
    let sum = |count: fn(&FlowStats) -> u64| flows.iter().map(count).sum::<u64>();
    let withheld = sum(|f| f.withheld);
    Source {
        id: id(Kind::Attachment, "eth0"),
        backlog: Some(Backlog {
            packets: 12,
            bytes: second * 100,
            rate_bps: None,
        }),
        counters: Ok(Counters::Attachment(Status {
            stats: Stats {
                ifname: "eth0".to_owned(),
                policy: "adaptive".to_owned(),
                uptime_s: 100.0 + second as f64,
                acks: sum(|f| f.acks),
                withheld,
                packets_saved: sum(|f| f.packets_saved),
                bytes_saved: sum(|f| f.bytes_saved),
                reasons: [("held", withheld), ("sack", second * 3), ("window", 7)]
                    .map(|(name, n)| (name.to_owned(), n))
                    .into(),
                ..Stats::default()
            },
            flows,
        })),
    }
}

fn id(kind: Kind, name: &str) -> Id {
    Id {
        kind,
        netns: None,
        name: name.to_owned(),
    }
}

fn gateway(second: u64) -> Source {
    let mut stats = ackwise_gateway::Stats {
        interface: "wan0".to_owned(),
        rate_bps: 5_000_000,
        discipline: "fifo of 64 packets".to_owned(),
        uptime_s: 4_000.0,
        cpu_s: 1.5,
        reasons: [("sack".to_owned(), second * 1_000)].into(),
        ..ackwise_gateway::Stats::default()
    };
    stats.filtered.packets = second * 900;
    stats.filtered.bytes = second * 900 * 52;
    stats.sent.packets = second * 400;
    stats.waiting.packets = 5;
    stats.waiting.max_packets = 60;
    stats.waiting.max_wait_us = 96_000;
    Source {
        id: id(Kind::Gateway, "wan0"),
        backlog: Some(Backlog {
            packets: 5,
            bytes: 7_500,
            rate_bps: Some(5_000_000),
        }),
        counters: Ok(Counters::Gateway(stats)),
    }
}

fn tunnel(second: u64) -> Source {
    let amount = |packets, bytes| Amount { packets, bytes };
    let peer = PeerStats {
        name: "centre".to_owned(),
        endpoint: Some("203.0.113.9:51830".parse().unwrap()),
        up: true,
        rtt_ms: Some(21.5),
        packets_in: amount(second * 1_000, second * 52_000),
        bundles_out: amount(second * 50, second * 9_000),
        bytes_per_ack: Some(9.0),
        ..PeerStats::default()
    };
    Source {
        id: id(Kind::Tunnel, "ack0"),
        backlog: None,
        counters: Ok(Counters::Tunnel(ackwise_tunneld::Stats {
            interface: Some("ppp0".to_owned()),
            uptime_s: 9.0,
            peers: vec![peer],
            ..ackwise_tunneld::Stats::default()
        })),
    }
}

fn snapshot(second: u64) -> Snapshot {
    Snapshot {
        at: Duration::from_secs(second),
        sources: vec![attachment(second), gateway(second), tunnel(second)],
    }
}

fn app() -> App {
    let mut app = App::new(snapshot(0), false);
    for second in 1..=120 {
        app.update(Ok(snapshot(second)));
    }
    app
}

fn press(app: &mut App, code: KeyCode) -> Next {
    app.key(KeyEvent::new(code, KeyModifiers::NONE))
}

/// The screen as text, without trailing spaces.
fn screen(app: &App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| {
        let cells = (0..width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..height).map(|y| row(y) + "\n").collect()
}

fn is_as_in(name: &str, screen: &str) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/linux/top/snapshots");
    let path = directory.join(format!("{name}.txt"));
    if std::env::var_os("ACKWISE_BLESS").is_some() {
        std::fs::write(&path, screen).unwrap();
    }
    let expected = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; ACKWISE_BLESS=1 writes it", path.display()));
    assert!(
        screen == expected,
        "{name} is\n{screen}\nand should be\n{expected}"
    );
}

#[test]
fn an_attachment_with_its_flows_in_80_columns() {
    is_as_in("attachment", &screen(&app(), 80, 24));
}

#[test]
fn a_gateway_and_its_queue() {
    let mut app = app();
    press(&mut app, KeyCode::Down);
    is_as_in("gateway", &screen(&app, 80, 24));
}

#[test]
fn a_tunnel_and_its_peers_on_a_wide_screen() {
    let mut app = app();
    press(&mut app, KeyCode::Char('j'));
    // Down from the last one stays there.
    for _ in 0..3 {
        press(&mut app, KeyCode::Down);
    }
    is_as_in("tunnel", &screen(&app, 120, 20));
}

#[test]
fn flows_are_sorted_as_asked() {
    let mut app = app();
    let order = |app: &App| {
        let screen = screen(app, 80, 24);
        let ports = screen.lines().filter_map(|line| {
            let port = line.strip_prefix("192.0.2.2:5000")?;
            port.chars().next()
        });
        ports.collect::<String>()
    };
    assert_eq!(order(&app), "210");
    press(&mut app, KeyCode::Char('r'));
    assert_eq!(order(&app), "012");
    press(&mut app, KeyCode::Left);
    assert_eq!((app.sort, order(&app)), (SortBy::Idle, "012".to_owned()));
    press(&mut app, KeyCode::Char('r'));
    press(&mut app, KeyCode::Left);
    assert_eq!((app.sort, order(&app)), (SortBy::Rtt, "012".to_owned()));
    press(&mut app, KeyCode::Right);
    press(&mut app, KeyCode::Right);
    assert_eq!((app.sort, order(&app)), (SortBy::Acks, "210".to_owned()));
}

/// Only the flows with most ACKs are read: what a flow counted before it was among them does not
/// belong to one interval.
#[test]
fn a_flow_that_comes_among_the_busiest_does_not_count_its_life_as_one_interval() {
    let source = |flows: Vec<FlowStats>| {
        let mut source = attachment(1);
        if let Ok(Counters::Attachment(status)) = &mut source.counters {
            status.flows = flows;
        }
        source
    };
    let one = |n: usize| FlowStats {
        ack_sender: format!("192.0.2.2:{n}"),
        ..flow(0, 50)
    };
    let rates = |read: usize| {
        let before: Vec<_> = (0..read).map(one).collect();
        let mut now = before.clone();
        now[0] = one(read);
        now[1].acks += 10;
        let found = between(&source(before), &source(now), Duration::from_secs(1));
        let flows = found.unwrap().flows;
        (flows[0].acks, flows[0].data, flows[1].acks)
    };
    assert_eq!(rates(MAX_FLOWS), (0.0, 0.0, 10.0));
    // If all flows were read before, the flow is new, and all that it counted belongs to this
    // interval.
    let new = one(2);
    let (acks, data) = (new.acks as f64, new.data_bytes as f64);
    assert_eq!(rates(2), (acks, data, 10.0));
}

#[test]
fn held_still_it_does_not_change() {
    let mut app = app();
    press(&mut app, KeyCode::Char(' '));
    let before = screen(&app, 80, 24);
    assert!(before.contains("frozen"), "{before}");
    app.update(Ok(snapshot(500)));
    assert_eq!(screen(&app, 80, 24), before);
    // What was collected meanwhile is shown at once, as if the display had not been paused.
    app.update(Ok(snapshot(501)));
    press(&mut app, KeyCode::Char(' '));
    let mut watched = self::app();
    watched.update(Ok(snapshot(500)));
    watched.update(Ok(snapshot(501)));
    assert_eq!(screen(&app, 80, 24), screen(&watched, 80, 24));
    assert_ne!(screen(&app, 80, 24), before);
}

#[test]
fn what_ends_or_does_not_answer_is_said() {
    let mut app = app();
    let mut silent = attachment(121);
    silent.counters = Err("no answer for 5 s".to_owned());
    app.update(Ok(Snapshot {
        at: Duration::from_secs(121),
        sources: vec![silent],
    }));
    let shown = screen(&app, 80, 24);
    for text in ["1 attachment, 0 gateways", "no answer for 5 s"] {
        assert!(shown.contains(text), "{shown}");
    }
    app.update(Err(anyhow::anyhow!("permission denied")));
    let shown = screen(&app, 80, 24);
    assert!(shown.contains("cannot read: permission denied"), "{shown}");
    app.update(Ok(Snapshot {
        at: Duration::from_secs(123),
        sources: Vec::new(),
    }));
    let shown = screen(&app, 80, 24);
    assert!(shown.contains("Nothing runs."), "{shown}");
    assert!(!shown.contains("cannot read"), "{shown}");
}

#[test]
fn keys_end_it_and_help_covers_the_rest() {
    let mut app = app();
    press(&mut app, KeyCode::Char('?'));
    is_as_in("help", &screen(&app, 80, 24));
    assert_eq!(press(&mut app, KeyCode::Esc), Next::GoOn);
    assert!(!app.help);
    assert_eq!(press(&mut app, KeyCode::Esc), Next::End);
    assert_eq!(press(&mut app, KeyCode::Char('q')), Next::End);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(app.key(interrupt), Next::End);
}

/// No size panics; without colours none is used.
#[test]
fn any_size_is_drawn_and_colours_can_be_left_out() {
    for color in [false, true] {
        let mut app = app();
        app.color = color;
        for (width, height) in [(1, 1), (5, 3), (20, 10), (79, 8), (80, 9), (300, 80)] {
            for help in [false, true] {
                app.help = help;
                let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
                terminal.draw(|frame| draw(frame, &app)).unwrap();
                let cells = &terminal.backend().buffer().content;
                let colored = cells.iter().any(|cell| cell.fg != Color::Reset);
                assert!(color || !colored, "{width} x {height}");
                // Where there is room, some colours are used.
                assert!(width < 80 || help || colored == color, "{width} x {height}");
            }
        }
    }
}
