//! Nodes and links.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::boxes;
use crate::changes::{self, LinkContext};
use crate::limits::MAX_DELAY;
use crate::model::{By, Direction, Duplex, Link, Node, NodeKind, Reorder, Wifi};
use crate::names::{check_node, table_names, unique};
use crate::trace::TraceFiles;
use ackwise_config::Span;
use ackwise_config::queue_keys::{Context, NANOSECOND};
use ackwise_config::section::{Section, Word};
use ackwise_config::tree::{Kind, Table};
use ackwise_queue::wifi::{MAX_BYTES, MAX_FRAMES};

/// Bytes of an Ethernet header, which count against the rate of a link.
const ETHERNET: u32 = 14;

pub(crate) fn nodes(top: &Section<'_>) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    if !top.has("node") {
        top.error(&(0..0), "there are no nodes; add [[node]] tables");
    }
    for (table, span) in top.tables("node") {
        let known = ["name", "kind", "sysctl"];
        let section = Section::open(table, span, "a node", &known, top.errors);
        let Some(name) = section.required_name("\"sender\"") else {
            continue;
        };
        unique(
            &section,
            &name,
            "node",
            nodes.iter().map(|n| n.name.clone()),
        );
        let kinds = [
            ("host", NodeKind::Host),
            ("router", NodeKind::Router),
            ("bridge", NodeKind::Bridge),
        ];
        let kind = section.choice("kind", &kinds).unwrap_or(NodeKind::Host);
        let mut sysctl = BTreeMap::new();
        if let Some((table, _)) = section.table("sysctl") {
            settings(&section, "", table, &mut sysctl);
        }
        nodes.push(Node {
            name: name.text,
            kind,
            sysctl,
        });
    }
    nodes
}

/// Reads `net.ipv4.tcp_rmem = "…"`, quoted or as nested tables, into flat names.
fn settings(
    section: &Section<'_>,
    prefix: &str,
    table: &Table,
    into: &mut BTreeMap<String, String>,
) {
    for entry in &table.entries {
        let name = format!("{prefix}{}", entry.key.replace('/', "."));
        if let Kind::Table(inner) = &entry.value.kind {
            settings(section, &format!("{name}."), inner, into);
            continue;
        }
        let legal = name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
        if !name.starts_with("net.") || !legal || name.contains("..") || name.ends_with('.') {
            section.error(
                &entry.key_span,
                format!(
                    "'{name}' is not a parameter of a network namespace; \
                     write e.g. \"net.ipv4.tcp_rmem\""
                ),
            );
            continue;
        }
        let value = match entry.value.kind {
            Kind::Bool(flag) => Some(u8::from(flag).to_string()),
            _ => entry.value.plain(),
        };
        match value.filter(|v| !v.is_empty() && !v.contains(['\n', '\0'])) {
            Some(value) => {
                if into.insert(name.clone(), value).is_some() {
                    section.error(&entry.key_span, format!("'{name}' is set twice"));
                }
            }
            None => section.error(
                &entry.value.span,
                format!(
                    "'{name}' must be a number or a line of text, not {}",
                    entry.value.what()
                ),
            ),
        }
    }
}

pub(crate) fn links(top: &Section<'_>, nodes: &[Node], files: &TraceFiles) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    if !top.has("link") {
        top.error(&(0..0), "there are no links; add [[link]] tables");
    }
    let flows = table_names(top, "flow");
    for (table, span) in top.tables("link") {
        let known = [
            "name", "between", "both", "forward", "reverse", "duplex", "wifi", "offload", "mtu",
            "overhead",
        ];
        let mut section = Section::open_unchecked(table, span, "a link", top.errors);
        let name = section.required_name("\"wan\"");
        if let Some(name) = &name {
            section.what = format!("link '{}'", name.text);
            unique(&section, name, "link", links.iter().map(|l| l.name.clone()));
        }
        section.only(&known);
        let between = ends(&section, nodes);
        let mtu = section.whole("mtu", 68, 65535).unwrap_or(1500);
        let overhead = section.whole("overhead", 0, 256).unwrap_or(ETHERNET);
        let context = Reading {
            queues: Context { mtu, flows: &flows },
            link: LinkContext { overhead, files },
        };
        let mut forward = Direction::default();
        direction(&section, "both", &mut forward, &context);
        let mut reverse = forward.clone();
        direction(&section, "forward", &mut forward, &context);
        direction(&section, "reverse", &mut reverse, &context);
        changes::fits(&section, [&forward, &reverse]);
        let choices = [("full", Duplex::Full), ("half", Duplex::Half)];
        let duplex = section.choice("duplex", &choices).unwrap_or_default();
        if duplex == Duplex::Half {
            can_take_turns(&section, [&forward, &reverse]);
        }
        let wifi = wifi(&section, duplex, [&forward, &reverse]);
        let offload = section.flag("offload").unwrap_or(false);
        let (Some(name), Some(between)) = (name, between) else {
            continue;
        };
        links.push(Link {
            name: name.text,
            between,
            forward,
            reverse,
            duplex,
            wifi,
            offload,
            mtu,
            overhead,
        });
    }
    for (table, span) in top.tables("node") {
        let Some(Kind::Text(name)) = table.get("name").map(|value| &value.kind) else {
            continue;
        };
        let attached = links.iter().filter(|l| l.between.contains(name)).count();
        let bridge = nodes
            .iter()
            .any(|n| n.name == *name && n.kind == NodeKind::Bridge);
        if bridge && attached < 2 {
            top.error(span, format!("bridge '{name}' needs two links or more"));
        }
    }
    links
}

/// Reads `wifi`: `true`, or a table.
fn wifi(link: &Section<'_>, duplex: Duplex, directions: [&Direction; 2]) -> Option<Wifi> {
    let all = Wifi {
        frames: MAX_FRAMES,
        bytes: MAX_BYTES as u32,
        txop: None,
    };
    let wifi = match link.value("wifi").map(|value| &value.kind)? {
        Kind::Bool(false) => return None,
        Kind::Bool(true) => all,
        _ => {
            let (table, span) = link.table("wifi")?;
            let known = ["frames", "bytes", "txop"];
            let section = Section::open(table, span, "'wifi'", &known, link.errors);
            // A frame and its ACK take at least 100 us; an aggregate ends after 10 ms.
            let [least, most] = [100, 10_000].map(Duration::from_micros);
            Wifi {
                frames: section.whole("frames", 1, MAX_FRAMES).unwrap_or(all.frames),
                bytes: section
                    .size_within("bytes", 1, MAX_BYTES as u32)
                    .unwrap_or(all.bytes),
                txop: section.time("txop", least, most),
            }
        }
    };
    let span = link.span_of("wifi");
    if duplex == Duplex::Full {
        let message = "the stations of a Wi-Fi share its medium; add duplex = \"half\"";
        link.error(&span, message);
    }
    if directions
        .iter()
        .any(|one| one.changes().is_some_and(|it| it.rate.is_some()))
    {
        let message = "the 'rate' of a Wi-Fi is that of its frames, and does not change; write \
                       e.g. rate = \"65 Mbit/s\"";
        link.error(&span, message);
    }
    Some(wifi)
}

/// The context for reading a direction.
struct Reading<'a> {
    queues: Context<'a>,
    link: LinkContext<'a>,
}

/// Checks that two directions can share a medium.
fn can_take_turns(link: &Section<'_>, directions: [&Direction; 2]) {
    let span = link.span_of("duplex");
    if directions.iter().any(|one| one.rate_bps.is_none()) {
        let message =
            "what shares a medium occupies it for a time; add a 'rate' to both directions";
        link.error(&span, message);
    }
    if directions.iter().any(|one| one.by != By::Link) {
        link.error(
            &span,
            "a gateway and `ackwise up` have a rate of their own; duplex = \"half\" is for by = \"link\"",
        );
    }
    let of_packets = |one: &&Direction| {
        let rate = one.rate_changes.as_ref();
        rate.is_some_and(|rate| rate.is_opportunities())
    };
    if directions.iter().any(of_packets) {
        let message = "delivery opportunities say when one direction sends, and so cannot be \
                       shared; use a trace of rates, or duplex = \"full\"";
        link.error(&span, message);
    }
    let boxes = ["police", "shape", "mux", "reconstruct"];
    let asked = directions.map(Direction::own_queue_keys).concat();
    if let Some(key) = boxes.iter().find(|key| asked.contains(key)) {
        let message =
            format!("a link with duplex = \"half\" has no '{key}'; put it on one beside it");
        link.error(&span, message);
    }
}

fn ends(section: &Section<'_>, nodes: &[Node]) -> Option<[String; 2]> {
    if !section.has("between") {
        section.error(
            &section.span,
            format!(
                "{} has no 'between'; add between = [\"a\", \"b\"]",
                section.what
            ),
        );
        return None;
    }
    let span = section.span_of("between");
    let items = section.list("between")?;
    let mut words = Vec::new();
    for item in &items {
        match &item.kind {
            Kind::Text(text) => words.push(Word {
                text: text.clone(),
                span: item.span.clone(),
            }),
            _ => {
                section.error(
                    &item.span,
                    format!("a node's name is text, not {}", item.what()),
                );
                return None;
            }
        }
    }
    let [a, b] = words.as_slice() else {
        section.error(
            &span,
            "a link is between two nodes: between = [\"a\", \"b\"]",
        );
        return None;
    };
    // Both are checked, so that both are reported.
    let known = [check_node(section, a, nodes), check_node(section, b, nodes)];
    if a.text == b.text {
        section.error(
            &b.span,
            format!("this link leads from '{}' to itself", a.text),
        );
        return None;
    }
    known
        .iter()
        .all(|k| *k)
        .then(|| [a.text.clone(), b.text.clone()])
}

/// Sets the parts of `direction` that are given under `key`.
fn direction(link: &Section<'_>, key: &str, direction: &mut Direction, context: &Reading<'_>) {
    let Some((table, span)) = link.table(key) else {
        return;
    };
    let mut known = vec![
        "rate",
        "delay",
        "jitter",
        "loss",
        "duplicate",
        "reorder",
        "by",
    ];
    known.extend(boxes::KEYS);
    let what = format!("'{key}' of {}", link.what);
    let section = Section::open(table, span, what, &known, link.errors);
    changes::rate(&section, direction, &context.link);
    changes::delay(&section, direction);
    if let Some(jitter) = section.time("jitter", Duration::ZERO, MAX_DELAY) {
        direction.jitter = jitter;
    }
    if direction.jitter > direction.delay {
        section.error(
            &section.span_of("jitter"),
            "'jitter' is greater than 'delay': packets would arrive before they were sent",
        );
    }
    if let Some(loss) = section.probability("loss") {
        direction.loss = loss;
    }
    if let Some(duplicate) = section.probability("duplicate") {
        direction.duplicate = duplicate;
    }
    if let Some((table, span)) = section.table("reorder") {
        direction.reorder = reorder(&section, table, span);
    }
    boxes::refine(&section, direction, &context.queues);
    let choices = [("link", By::Link), ("gateway", By::Gateway), ("up", By::Up)];
    if let Some(by) = section.choice("by", &choices) {
        direction.by = by;
    }
    match direction.by {
        By::Link => {}
        By::Gateway => gateway_fits(&section, direction),
        By::Up => up_fits(&section, direction),
    }
}

/// Checks that `ackwise up` has a rate that it can shape to.
fn up_fits(section: &Section<'_>, direction: &Direction) {
    let span = section.span_of("by");
    if direction.rate_changes.is_some() || direction.outages.is_some() {
        let message = "`ackwise up` shapes to one rate here; leave out 'by', or give a rate like \
                       \"20 Mbit/s\" and a delay without hand-overs";
        section.error(&span, message);
    } else if direction.rate_bps.is_none() && !section.has("rate") {
        let message = "`ackwise up` needs a rate to shape to; add 'rate' before 'by'";
        section.error(&span, message);
    }
}

/// Checks that a gateway supports everything that a direction asks for.
fn gateway_fits(section: &Section<'_>, direction: &Direction) {
    let span = section.span_of("by");
    // A wrong queue is not a missing one.
    let queued = direction.queue.is_some() || section.has("queue");
    if direction.rate_bps.is_none() || !queued {
        let message = "a gateway has a rate and a queue; add 'rate' and 'queue' before 'by'";
        section.error(&span, message);
    }
    if direction.rate_changes.is_some() || direction.outages.is_some() {
        let message = "a gateway sends at one rate; leave out 'by', or give a rate like \
                       \"20 Mbit/s\" and a delay without hand-overs";
        section.error(&span, message);
    }
    let queue = direction.queue.as_ref();
    if queue.is_some_and(|queue| queue.cake.is_some() || queue.counts_sending) {
        section.error(
            &span,
            "a gateway's queue is \"fq_codel\", \"red\" or \"drop-tail\", and counts what waits",
        );
    }
    let more = ["police", "shape", "mux", "reconstruct"];
    let asked = direction.own_queue_keys();
    if let Some(key) = more.iter().find(|key| asked.contains(key)) {
        section.error(&span, format!("a gateway has no '{key}'"));
    }
}

fn reorder(direction: &Section<'_>, table: &Table, span: &Span) -> Option<Reorder> {
    let known = ["probability", "delay"];
    let section = Section::open(table, span, "'reorder'", &known, direction.errors);
    for (key, example) in [("probability", "\"1 %\""), ("delay", "\"5 ms\"")] {
        if !section.has(key) {
            section.error(
                span,
                format!("'reorder' has no '{key}'; add {key} = {example}"),
            );
        }
    }
    Some(Reorder {
        probability: section.probability("probability")?,
        delay: section.time("delay", NANOSECOND, MAX_DELAY)?,
    })
}
