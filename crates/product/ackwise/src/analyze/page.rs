//! The findings as one self-contained page with plots.

use ackwise_analyze::{Analysis, StretchClass};
use ackwise_cli::text;

use super::Finding;
use super::table::percent;
use crate::page::{self, escape, table, table_with_text};

/// One page for all files.
pub fn page(findings: &[Finding]) -> String {
    let mut out = page::begin("What the ACKs cost");
    for finding in findings {
        section(&mut out, finding);
    }
    out.push_str(page::END);
    out
}

fn section(out: &mut String, finding: &Finding) {
    let a = &finding.analysis;
    out.push_str(&format!(
        "<h1>{}</h1>\n<div class=\"advice\">",
        escape(&finding.file)
    ));
    for sentence in &a.advice.text {
        out.push_str(&format!("<div>{}</div>", escape(sentence)));
    }
    out.push_str("</div>\n");
    if let Some(at) = finding.cut_at {
        out.push_str(&format!(
            "<p>The capture is cut off after byte {at}; the part before is analysed here.</p>\n"
        ));
    }
    cost(out, a);
    out.push_str("<h2>Segments per ACK</h2>\n");
    let bars: Vec<_> = a
        .stretch
        .iter()
        .map(|c| (class(c), c.acks as f64, text::count(c.acks as f64)))
        .collect();
    plot(
        out,
        "Pure ACKs by the number of segments that they acknowledge",
        &bars,
    );
    out.push_str("<h2>What a policy would have saved</h2>\n");
    let bars: Vec<_> = a
        .policies
        .iter()
        .map(|p| (p.policy.clone(), p.saved_share, percent(p.saved_share)))
        .collect();
    plot(out, "Share of ACKs saved, by policy", &bars);
    policies(out, a);
    flows(out, a);
}

fn cost(out: &mut String, a: &Analysis) {
    out.push_str("<h2>What the ACKs cost</h2>\n");
    let mut rows = vec![
        vec![
            "Packets".to_owned(),
            text::count(a.tcp.acks as f64),
            percent(a.tcp.ack_share_of_packets),
        ],
        vec![
            "Bytes".to_owned(),
            text::bytes(a.tcp.ack_bytes),
            percent(a.tcp.ack_share_of_bytes),
        ],
    ];
    if let Some(share) = a.line.ack_peak_share_of_uplink {
        rows.push(vec![
            "Uplink, in the busiest 100 ms".to_owned(),
            text::bit_rate(a.line.ack_peak_bps as f64),
            percent(share),
        ]);
    }
    if let Some(time) = &a.airtime {
        rows.push(vec![
            "Airtime, frames aggregated".to_owned(),
            format!("{:.3} s", time.acks_shared_s),
            percent(time.ack_share_shared),
        ]);
        rows.push(vec![
            "Airtime, each frame alone".to_owned(),
            format!("{:.3} s", time.acks_alone_s),
            percent(time.ack_share_alone),
        ]);
    }
    table(out, &["", "pure ACKs", "of all"], &rows);
}

fn policies(out: &mut String, a: &Analysis) {
    let rows: Vec<_> = a
        .policies
        .iter()
        .map(|p| {
            let why: Vec<_> = p
                .reasons
                .iter()
                .map(|r| format!("{} {}", r.reason, text::count(r.acks as f64)))
                .collect();
            vec![
                p.policy.clone(),
                text::count(p.pure_acks as f64),
                text::count(p.saved as f64),
                text::bytes(p.saved_bytes),
                why.join(", "),
            ]
        })
        .collect();
    table_with_text(
        out,
        &["policy", "judged", "saved", "bytes", "reasons"],
        &rows,
    );
}

fn flows(out: &mut String, a: &Analysis) {
    out.push_str("<h2>Flows with the most ACKs</h2>\n");
    let rows: Vec<_> = a
        .flows
        .iter()
        .map(|f| {
            vec![
                format!("{} → {}", f.from, f.to),
                text::count(f.data_segments as f64),
                text::count(f.acks as f64),
                f.saved
                    .first()
                    .map_or_else(String::new, |n| text::count(*n as f64)),
                f.srtt_us
                    .map_or_else(String::new, |us| text::micros(f64::from(us))),
            ]
        })
        .collect();
    let first = a.policies.first().map_or("", |p| &p.policy);
    let saved = format!("saved by {first}");
    table(out, &["data", "segments", "ACKs", &saved, "RTT"], &rows);
    if a.flows_left_out > 0 {
        out.push_str(&format!(
            "<p>{} flows with fewer ACKs are only in the totals.</p>\n",
            a.flows_left_out
        ));
    }
}

fn class(c: &StretchClass) -> String {
    match c.to {
        Some(to) if to == c.from => format!("{to}"),
        Some(to) => format!("{} to {to}", c.from),
        None => format!("{} and more", c.from),
    }
}

/// Horizontal bars, each with its name, length and label.
fn plot(out: &mut String, title: &str, bars: &[(String, f64, String)]) {
    const ROW: usize = 26;
    let most = bars
        .iter()
        .map(|(_, n, _)| *n)
        .fold(f64::MIN_POSITIVE, f64::max);
    let height = bars.len() * ROW + 4;
    out.push_str(&format!(
        "<div class=\"wide\"><svg viewBox=\"0 0 720 {height}\" width=\"720\" height=\"{height}\" role=\"img\" \
         aria-label=\"{}\">",
        escape(title)
    ));
    for (row, (name, n, label)) in bars.iter().enumerate() {
        let (y, width) = (row * ROW, n / most * 460.0);
        out.push_str(&format!(
            "<text x=\"150\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <rect x=\"160\" y=\"{}\" width=\"{width:.1}\" height=\"18\" fill=\"#2b6cb0\"/>\
             <text x=\"{:.1}\" y=\"{}\">{}</text>",
            y + 18,
            escape(name),
            y + 4,
            166.0 + width,
            y + 18,
            escape(label)
        ));
    }
    out.push_str("</svg></div>\n");
}
