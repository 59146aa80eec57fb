//! The findings as text for a terminal of 80 columns.

use ackwise_analyze::{Analysis, FlowFinding, PolicyFinding, StretchClass, WITH_DATA};
use ackwise_cli::text;

use super::Finding;

/// The number of flows shown.
const MAX_FLOWS: usize = 8;
/// The number of reasons shown for each policy.
const MAX_REASONS: usize = 3;

/// The findings for one file.
pub fn text(finding: &Finding) -> String {
    let a = &finding.analysis;
    let mut out = head(finding);
    out.push_str(&cost(a));
    if a.tcp.acks > 0 {
        out.push_str("\nSegments per ACK\n");
        out.push_str(&stretch(&a.stretch));
        out.push_str(&thinned(a));
        out.push_str("\nWhat a policy would have saved\n");
        out.push_str(&policies(&a.policies));
        out.push_str("\nFlows with the most ACKs\n");
        out.push_str(&flows(a));
    }
    out.push('\n');
    for sentence in &a.advice.text {
        out.push_str(sentence);
        out.push('\n');
    }
    out
}

fn head(finding: &Finding) -> String {
    let a = &finding.analysis;
    let mut out = format!(
        "{}: {} packets, {}, {:.1} s, {} TCP connections\n",
        finding.file,
        text::count(a.packets as f64),
        text::bytes(a.bytes),
        a.seconds,
        text::count(a.connections as f64)
    );
    if let Some(at) = finding.cut_at {
        out.push_str(&format!(
            "The capture is cut off after byte {at}; the part before is analysed here.\n"
        ));
    }
    let u = &a.unread;
    for (n, what) in [
        (u.fragments, "fragments"),
        (
            u.cut,
            "cut before the end of their headers (capture with -s 128)",
        ),
        (u.malformed, "with inconsistent headers"),
        (
            u.encrypted,
            "encrypted by Wi-Fi (capture on the host, or give the key to Wireshark)",
        ),
        (u.unsupported, "of a link type that is not read"),
        (
            u.time_went_back,
            "with an earlier time than the one before (taken as the same time)",
        ),
        (
            u.without_time,
            "without a time (taken as that of the one before): what policies would have withheld is \
             not known",
        ),
    ] {
        if n > 0 {
            out.push_str(&format!("{} packets {what}\n", text::count(n as f64)));
        }
    }
    out
}

/// A share in percent.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn cost(a: &Analysis) -> String {
    let mut rows = vec![
        vec![
            "ACKs".into(),
            text::count(a.tcp.acks as f64),
            "pure ACKs".into(),
        ],
        vec![
            String::new(),
            percent(a.tcp.ack_share_of_packets),
            "of the packets".into(),
        ],
        vec![
            String::new(),
            percent(a.tcp.ack_share_of_bytes),
            "of the bytes".into(),
        ],
        vec![
            String::new(),
            text::bit_rate(a.line.ack_peak_bps as f64),
            "in the busiest 100 ms".into(),
        ],
    ];
    let mut row = |value: String, what: &str| rows.push(vec![String::new(), value, what.into()]);
    if let Some(share) = a.line.ack_peak_share_of_uplink {
        row(percent(share), "of the uplink at that time");
    }
    if let Some(k) = a.line.k {
        row(
            format!("{k:.2}"),
            "is k (RFC 3449): above 1, one ACK per segment fills the uplink first",
        );
    }
    if let Some(time) = &a.airtime {
        row(
            format!(
                "{} to {}",
                percent(time.ack_share_shared),
                percent(time.ack_share_alone)
            ),
            "of the airtime, with and without frame aggregation",
        );
    }
    text::columns(&rows, &[false, true])
}

fn class(c: &StretchClass) -> String {
    match c.to {
        Some(to) if to == c.from => format!("{to}"),
        Some(to) => format!("{}-{to}", c.from),
        None => format!("{}+", c.from),
    }
}

fn stretch(classes: &[StretchClass]) -> String {
    const WIDTH: f64 = 40.0;
    let most = classes.iter().map(|c| c.acks).max().unwrap_or(0).max(1);
    let rows: Vec<_> = classes
        .iter()
        .map(|c| {
            let bar = (c.acks as f64 / most as f64 * WIDTH).ceil() as usize;
            vec![class(c), text::count(c.acks as f64), "#".repeat(bar)]
        })
        .collect();
    text::columns(&rows, &[true, true])
}

fn thinned(a: &Analysis) -> String {
    let t = &a.thinned_already;
    let mut out = String::new();
    if let Some(mean) = t.segments_per_ack {
        out.push_str(&format!(
            "{mean:.1} segments per ACK; delayed ACKs alone give 2.\n"
        ));
    }
    if t.aggregated_packets > 0 {
        out.push_str(&format!(
            "{} of the data packets are several segments, aggregated by this host or its \
             interface.\n",
            percent(t.aggregated_share)
        ));
    }
    if t.guessed_sizes > 0 {
        out.push_str(
            "Some segment sizes are guessed from packet sizes: not all connections begin in this capture.\n",
        );
    }
    match (t.missing_by_ip_id, t.missing_share) {
        (Some(n), Some(share)) if n > 0 => out.push_str(&format!(
            "{} ACKs ({}) are missing, as gaps in the IP IDs show: lost or withheld before this capture.\n",
            text::count(n as f64),
            percent(share)
        )),
        _ => {}
    }
    out
}

fn policies(policies: &[PolicyFinding]) -> String {
    let mut rows = vec![
        ["policy", "saved", "bytes", "the others left because"]
            .map(String::from)
            .to_vec(),
    ];
    for p in policies {
        let why: Vec<_> = p
            .reasons
            .iter()
            .filter(|r| r.reason != "held" && r.reason != WITH_DATA)
            .take(MAX_REASONS)
            .map(|r| {
                let share = r.acks as f64 / p.pure_acks.max(1) as f64;
                format!("{} {}", r.reason, percent(share))
            })
            .collect();
        rows.push(vec![
            p.policy.clone(),
            percent(p.saved_share),
            text::bytes(p.saved_bytes),
            why.join(", "),
        ]);
    }
    text::columns(&rows, &[false, true, true])
}

fn flows(a: &Analysis) -> String {
    let mut rows = vec![
        ["data from", "to", "segments", "ACKs", "saved", "RTT"]
            .map(String::from)
            .to_vec(),
    ];
    for f in a.flows.iter().take(MAX_FLOWS) {
        rows.push(vec![
            f.from.clone(),
            f.to.clone(),
            text::count(f.data_segments as f64),
            text::count(f.acks as f64),
            share_saved(f),
            f.srtt_us
                .map_or_else(|| "-".into(), |us| text::micros(f64::from(us))),
        ]);
    }
    let mut out = text::columns(&rows, &[false, false, true, true, true, true]);
    let more = a.flows.len().saturating_sub(MAX_FLOWS) as u64 + a.flows_left_out;
    if more > 0 {
        out.push_str(&format!("and {more} more (--csv, --format json)\n"));
    }
    out
}

/// The share of a flow's ACKs that the first policy saves.
fn share_saved(f: &FlowFinding) -> String {
    match f.saved.first() {
        Some(saved) if f.acks > 0 => percent(*saved as f64 / f.acks as f64),
        _ => "-".into(),
    }
}
