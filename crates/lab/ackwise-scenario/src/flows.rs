//! Flows and their applications.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::WEEK;
use crate::model::{
    AckCongestionControl, AckRate, AckRateRequest, App, Flow, IpVersion, Link, Node, NodeKind,
    Quic, SocketOptions,
};
use crate::names::{check_cc, check_node, unique};
use crate::route::path;
use crate::tcp_model::tcp_model;
use ackwise_config::section::{Section, Word};
use ackwise_config::tree::Kind;

#[derive(Clone, Copy, PartialEq)]
enum AppKind {
    Bulk,
    Iperf3,
    RequestResponse,
    ShortFlows,
    Chunks,
}

const APPS: [(&str, AppKind); 5] = [
    ("bulk", AppKind::Bulk),
    ("iperf3", AppKind::Iperf3),
    ("request-response", AppKind::RequestResponse),
    ("short-flows", AppKind::ShortFlows),
    ("chunks", AppKind::Chunks),
];

const MILLISECOND: Duration = Duration::from_millis(1);
/// The largest value that QUIC can encode (RFC 9000 §18.2).
const MAX_ACK_DELAY: Duration = Duration::from_millis((1 << 14) - 1);

/// Seven bits encode how many segments an ACK covers.
const MAX_ACK_RATE: u32 = 127;

/// The ACK Ratio is one byte (RFC 5690 §4.2).
const MAX_ACK_RATIO: u32 = 255;

/// Keys that every flow has.
const KEYS: [&str; 14] = [
    "name",
    "from",
    "to",
    "app",
    "cc",
    "start",
    "start_within",
    "connections",
    "transport",
    "quic",
    "ack_rate_request",
    "ack_congestion_control",
    "socket",
    "model",
];

/// Keys that only certain applications have.
const APP_KEYS: [(&str, &[AppKind]); 8] = [
    ("bytes", &[AppKind::Bulk, AppKind::Iperf3]),
    ("request", &[AppKind::RequestResponse]),
    ("response", &[AppKind::RequestResponse]),
    ("sizes", &[AppKind::ShortFlows]),
    ("count", &[AppKind::RequestResponse, AppKind::ShortFlows]),
    ("chunk", &[AppKind::Chunks]),
    ("period", &[AppKind::Chunks]),
    ("deadline", &[AppKind::Chunks]),
];

pub(crate) fn flows(
    top: &Section<'_>,
    nodes: &[Node],
    links: &[Link],
    duration: Option<Duration>,
) -> Vec<Flow> {
    let mut flows: Vec<Flow> = Vec::new();
    if !top.has("flow") {
        top.error(&(0..0), "there are no flows; add [[flow]] tables");
    }
    // Namespace-wide options: (node, option) → value and the flow that needs it.
    let mut claims: BTreeMap<(String, &'static str), (bool, String)> = BTreeMap::new();
    for (table, span) in top.tables("flow") {
        let mut section = Section::open_unchecked(table, span, "a flow", top.errors);
        let name = section.required_name("\"bulk\"");
        if let Some(name) = &name {
            section.what = format!("flow '{}'", name.text);
            unique(&section, name, "flow", flows.iter().map(|f| f.name.clone()));
        }
        let app_keys = APP_KEYS.iter().map(|(key, _)| *key);
        let known: Vec<&str> = KEYS.into_iter().chain(app_keys).collect();
        section.only(&known);
        let from = end(&section, "from", "\"sender\"", nodes);
        let to = end(&section, "to", "\"receiver\"", nodes);
        let ends = from.zip(to);
        if let Some((from, to)) = &ends {
            check_route(&section, from, to, nodes, links);
        }
        let app = app(&section);
        let fixed_cc = section.word("cc").filter(|cc| check_cc(&section, cc));
        let (start, start_within) = starts(&section, duration);
        let connections = section.whole("connections", 0, 100_000).unwrap_or(1);
        let quic = quic(&section, app.as_ref());
        let socket = socket(&section);
        let model = tcp_model(&section);
        let ack_rate_request = ack_rate_request(&section);
        if ack_rate_request.is_some() {
            let key = "ack_rate_request";
            check_ack_rate(&section, key, app.as_ref(), quic.is_some(), model.handshake);
        }
        let ack_congestion_control = ack_congestion_control(&section);
        if ack_congestion_control.is_some() {
            let key = "ack_congestion_control";
            check_ack_rate(&section, key, app.as_ref(), quic.is_some(), model.handshake);
            if ack_rate_request.is_some() {
                section.error(
                    &section.span_of(key),
                    "this adapts how many ACKs the sender asks for, and 'ack_rate_request' says \
                     how many; keep one",
                );
            }
        }
        let (Some(name), Some((from, to)), Some(app)) = (name, ends, app) else {
            continue;
        };
        if socket.ip == IpVersion::V6 {
            check_ipv6(&section, &from, &to, nodes, links);
        }
        for node in [&from.text, &to.text] {
            claim(&section, &name.text, node, &socket, nodes, &mut claims);
        }
        flows.push(Flow {
            name: name.text,
            from: from.text,
            to: to.text,
            app,
            fixed_cc: fixed_cc.map(|cc| cc.text),
            start,
            start_within,
            connections,
            quic,
            ack_rate_request,
            ack_congestion_control,
            socket,
            model,
        });
    }
    flows
}

/// The earliest start of a flow, and the maximum random delay after it.
fn starts(section: &Section<'_>, duration: Option<Duration>) -> (Duration, Duration) {
    let time = |key| section.time(key, Duration::ZERO, WEEK).unwrap_or_default();
    let start = time("start");
    if duration.is_some_and(|duration| start >= duration) {
        section.error(
            &section.span_of("start"),
            "this flow starts after the scenario has ended; see 'duration'",
        );
    }
    let start_within = time("start_within");
    if duration.is_some_and(|end| start < end && start + start_within > end) {
        section.error(
            &section.span_of("start_within"),
            "this flow may start after the scenario has ended; see 'duration'",
        );
    }
    (start, start_within)
}

/// Reads the key of one end of a flow: an existing node that is not a bridge.
fn end(section: &Section<'_>, key: &str, example: &str, nodes: &[Node]) -> Option<Word> {
    let word = section.required_word(key, example)?;
    if !check_node(section, &word, nodes) {
        return None;
    }
    let kind = nodes.iter().find(|n| n.name == word.text).map(|n| n.kind);
    if kind == Some(NodeKind::Bridge) {
        section.error(
            &word.span,
            format!(
                "'{}' is a bridge; flows run between hosts or routers",
                word.text
            ),
        );
        return None;
    }
    Some(word)
}

fn check_route(section: &Section<'_>, from: &Word, to: &Word, nodes: &[Node], links: &[Link]) {
    if from.text == to.text {
        section.error(&to.span, "this flow ends where it starts");
        return;
    }
    if path(&from.text, &to.text, nodes, links).is_some() {
        return;
    }
    // Would there be a path if hosts forwarded? If so, say that.
    let forwarding: Vec<Node> = nodes
        .iter()
        .map(|node| Node {
            kind: NodeKind::Router,
            ..node.clone()
        })
        .collect();
    let mut advice = "; add a [[link]]".to_owned();
    if let Some(path) = path(&from.text, &to.text, &forwarding, links) {
        let blocking = path
            .iter()
            .flat_map(|link| link.between.iter())
            .filter(|name| **name != from.text && **name != to.text)
            .find(|name| {
                nodes
                    .iter()
                    .any(|n| n.name == **name && n.kind == NodeKind::Host)
            });
        if let Some(name) = blocking {
            advice = format!("; '{name}' is between them and is a host: give it kind = \"router\"");
        }
    }
    section.error(
        &to.span,
        format!(
            "there is no path from '{}' to '{}'{advice}",
            from.text, to.text
        ),
    );
}

fn check_ipv6(section: &Section<'_>, from: &Word, to: &Word, nodes: &[Node], links: &[Link]) {
    let small = path(&from.text, &to.text, nodes, links)
        .into_iter()
        .flatten()
        .find(|link| link.mtu < 1280);
    if let Some(link) = small {
        section.error(
            &section.span_of("socket"),
            format!(
                "IPv6 needs an mtu of 1280 (RFC 8200 §5), link '{}' has {}",
                link.name, link.mtu
            ),
        );
    }
}

fn app(section: &Section<'_>) -> Option<App> {
    if !section.has("app") {
        section.error(
            &section.span,
            format!("{} has no 'app'; add app = \"bulk\"", section.what),
        );
    }
    let kind = section.choice("app", &APPS)?;
    for (key, owners) in APP_KEYS {
        let Some(entry) = section.entry(key) else {
            continue;
        };
        if !owners.contains(&kind) {
            let names: Vec<&str> = APPS
                .iter()
                .filter(|(_, app)| owners.contains(app))
                .map(|(name, _)| *name)
                .collect();
            section.error(
                &entry.key_span,
                format!("'{key}' belongs to app = \"{}\"", names.join("\" or \"")),
            );
        }
    }
    let needed = |key: &str, example: &str| {
        if !section.has(key) {
            section.error(
                &section.span,
                format!("{} has no '{key}'; add {key} = {example}", section.what),
            );
        }
    };
    Some(match kind {
        AppKind::Bulk => App::Bulk {
            bytes: section.size("bytes"),
        },
        AppKind::Iperf3 => App::Iperf3 {
            bytes: section.size("bytes"),
        },
        AppKind::RequestResponse => {
            needed("request", "\"1 kB\"");
            needed("response", "\"1 kB\"");
            App::RequestResponse {
                request: section.size("request")?,
                response: section.size("response")?,
                count: section.whole("count", 1, 10_000_000),
            }
        }
        AppKind::ShortFlows => {
            needed("sizes", "[\"10 kB\", \"1 MB\"]");
            App::ShortFlows {
                sizes: section.sizes("sizes")?,
                count: section.whole("count", 1, 10_000_000),
            }
        }
        AppKind::Chunks => {
            needed("chunk", "\"1 MB\"");
            needed("period", "\"2 s\"");
            let time = |key| section.time(key, MILLISECOND, WEEK);
            let period = time("period")?;
            App::Chunks {
                chunk: section.size("chunk")?,
                period,
                deadline: match section.has("deadline") {
                    true => time("deadline")?,
                    false => period,
                },
            }
        }
    })
}

/// Reads the transport of the flow, and refuses keys that QUIC does not have.
fn quic(flow: &Section<'_>, app: Option<&App>) -> Option<Quic> {
    let is_quic = flow.choice("transport", &[("tcp", false), ("quic", true)]) == Some(true);
    if !is_quic {
        if let Some(entry) = flow.entry("quic") {
            flow.error(&entry.key_span, "'quic' belongs to transport = \"quic\"");
        }
        return None;
    }
    if matches!(app, Some(App::RequestResponse { .. } | App::Iperf3 { .. })) {
        flow.error(
            &flow.span_of("app"),
            "a flow over QUIC has app = \"bulk\", \"short-flows\" or \"chunks\"",
        );
    }
    if let Some(entry) = flow.entry("model") {
        flow.error(&entry.key_span, "'model' is for TCP; remove it");
    }
    if let Some((table, _)) = flow.table("socket")
        && let Some(entry) = table
            .entries
            .iter()
            .find(|entry| entry.key != "receive_buffer")
    {
        flow.error(
            &entry.key_span,
            format!(
                "'{}' is for TCP; QUIC has 'receive_buffer' alone",
                entry.key
            ),
        );
    }
    let mut quic = Quic::default();
    let Some((table, span)) = flow.table("quic") else {
        return Some(quic);
    };
    let known = ["ack_eliciting_threshold", "max_ack_delay"];
    let what = format!("'quic' of {}", flow.what);
    let section = Section::open(table, span, what, &known, flow.errors);
    quic.ack_eliciting_threshold = section.whole("ack_eliciting_threshold", 0, 1 << 20);
    quic.max_ack_delay = section.time("max_ack_delay", MILLISECOND, MAX_ACK_DELAY);
    if quic.max_ack_delay.is_some() && !section.has("ack_eliciting_threshold") {
        section.error(
            &section.span_of("max_ack_delay"),
            "'max_ack_delay' is asked for together with 'ack_eliciting_threshold'; add it",
        );
    }
    Some(quic)
}

/// Refuses `key` for flows that cannot ask for an ACK rate.
fn check_ack_rate(
    flow: &Section<'_>,
    key: &str,
    app: Option<&App>,
    is_quic: bool,
    handshake: Option<bool>,
) {
    let span = flow.span_of(key);
    if is_quic {
        flow.error(
            &span,
            format!("'{key}' is an option of TCP; QUIC has 'ack_eliciting_threshold' in 'quic'"),
        );
    }
    if matches!(app, Some(App::RequestResponse { .. })) {
        flow.error(
            &span,
            format!(
                "'{key}' is for data one way: app = \"bulk\", \"short-flows\", \"chunks\" or \
                 \"iperf3\""
            ),
        );
    }
    if handshake == Some(false) {
        flow.error(
            &span,
            format!("'{key}' is agreed on by the handshake, which 'model' turns off"),
        );
    }
}

/// Reads whether lost ACKs reduce the ACK rate.
fn ack_congestion_control(flow: &Section<'_>) -> Option<AckCongestionControl> {
    let (table, span) = flow.table("ack_congestion_control")?;
    let what = format!("'ack_congestion_control' of {}", flow.what);
    let section = Section::open(table, span, what, &["most"], flow.errors);
    let most = section.whole("most", 2, MAX_ACK_RATIO);
    Some(AckCongestionControl {
        most: most.unwrap_or(MAX_ACK_RATIO) as u8,
    })
}

/// Reads how often the sender asks for ACKs.
fn ack_rate_request(flow: &Section<'_>) -> Option<AckRateRequest> {
    let (table, span) = flow.table("ack_rate_request")?;
    let known = ["segments", "per_window", "immediate"];
    let what = format!("'ack_rate_request' of {}", flow.what);
    let section = Section::open(table, span, what, &known, flow.errors);
    let segments = section.whole("segments", 1, MAX_ACK_RATE);
    let per_window = section.whole("per_window", 1, 64);
    if segments.is_some() && per_window.is_some() {
        section.error(
            &section.span_of("per_window"),
            "'segments' says how many segments an ACK covers, 'per_window' how many ACKs a \
             window has; keep one",
        );
    }
    let request = AckRateRequest {
        rate: segments
            .map(AckRate::Segments)
            .or(per_window.map(AckRate::PerWindow)),
        immediate: section.flag("immediate").unwrap_or(false),
    };
    let named = section.has("segments") || section.has("per_window");
    if !named && !request.immediate {
        section.error(
            span,
            "this asks for nothing; add segments = 8, per_window = 4 or immediate = true",
        );
    }
    Some(request)
}

fn socket(flow: &Section<'_>) -> SocketOptions {
    let mut options = SocketOptions::default();
    let Some((table, span)) = flow.table("socket") else {
        return options;
    };
    let known = [
        "sack",
        "timestamps",
        "ecn",
        "window_scaling",
        "mptcp",
        "ip",
        "receive_buffer",
        "send_buffer",
        "pacing",
    ];
    let what = format!("'socket' of {}", flow.what);
    let section = Section::open(table, span, what, &known, flow.errors);
    options.sack = section.flag("sack");
    options.timestamps = section.flag("timestamps");
    options.ecn = section.flag("ecn");
    options.window_scaling = section.flag("window_scaling");
    options.mptcp = section.flag("mptcp").unwrap_or(false);
    options.receive_buffer = section.size("receive_buffer");
    options.send_buffer = section.size("send_buffer");
    options.pacing = section.flag("pacing").unwrap_or(false);
    if options.pacing && options.mptcp {
        let message = "Linux paces no Multipath TCP socket; leave out 'pacing' or 'mptcp'";
        section.error(&section.span_of("pacing"), message);
    }
    if let Some(value) = section.value("ip") {
        match value.kind {
            Kind::Integer(4) => options.ip = IpVersion::V4,
            Kind::Integer(6) => options.ip = IpVersion::V6,
            _ => section.error(&value.span, "'ip' is 4 or 6"),
        }
    }
    options
}

/// Claims an option that Linux sets for a whole namespace: flows that share a node must agree.
fn claim(
    section: &Section<'_>,
    flow: &str,
    node: &str,
    socket: &SocketOptions,
    nodes: &[Node],
    claims: &mut BTreeMap<(String, &'static str), (bool, String)>,
) {
    let options = [
        ("sack", "net.ipv4.tcp_sack", socket.sack),
        ("timestamps", "net.ipv4.tcp_timestamps", socket.timestamps),
        ("ecn", "net.ipv4.tcp_ecn", socket.ecn),
        (
            "window_scaling",
            "net.ipv4.tcp_window_scaling",
            socket.window_scaling,
        ),
    ];
    let span = section
        .entry("socket")
        .map_or_else(|| section.span.clone(), |entry| entry.key_span.clone());
    for (option, parameter, value) in options {
        let Some(value) = value else { continue };
        let twice = nodes
            .iter()
            .any(|n| n.name == node && n.sysctl.contains_key(parameter));
        if twice {
            section.error(
                &span,
                format!("'{option}' is also set by '{parameter}' of node '{node}'; keep one"),
            );
        }
        match claims.get(&(node.to_owned(), option)) {
            Some((other, by)) if *other != value => section.error(
                &span,
                format!(
                    "flow '{by}' sets '{option}' to {other}, and both share node '{node}', \
                     for which Linux knows one value"
                ),
            ),
            Some(_) => {}
            None => {
                claims.insert((node.to_owned(), option), (value, flow.to_owned()));
            }
        }
    }
}
