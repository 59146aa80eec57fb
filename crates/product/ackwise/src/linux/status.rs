//! `ackwise status` and `ackwise detach`.

use ackwise_cli::{Format, text};
use ackwise_datapath::control::{self, Holder, Status};
use ackwise_datapath::{FlowStats, Stats};
use ackwise_netdev::ifreq;
use serde::Serialize;

use crate::linux::cli::{DetachArgs, StatusArgs};
use crate::linux::present::{Names, named, unless_missing};
use crate::linux::rates::measured_rate;

#[derive(Serialize)]
struct Attachment {
    /// The interface's name when the daemon attached.
    interface: String,
    /// The interface's current name, if it was renamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    interface_now: Option<String>,
    netns: u64,
    pid: u32,
    policy: String,
    dry_run: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<Stats>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    flows: Vec<FlowStats>,
    /// Why there are no counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Attachment {
    fn new(names: &Names, holder: Holder, status: Result<Status, ackwise_datapath::Error>) -> Self {
        let (status, error) = match status {
            Ok(status) => (Some(status), None),
            Err(e) => (None, Some(e.to_string())),
        };
        let (stats, flows) = status.map_or((None, Vec::new()), |s| (Some(s.stats), s.flows));
        Self {
            interface_now: names.other(&holder),
            interface: holder.ifname,
            netns: holder.netns,
            pid: holder.pid,
            policy: holder.policy,
            dry_run: holder.dry_run,
            stats,
            flows,
            error,
        }
    }

    fn name(&self) -> String {
        named(&self.interface, self.interface_now.as_deref())
    }
}

/// Shows all attachments, or one interface in full.
pub fn status(args: &StatusArgs, format: Format) -> anyhow::Result<()> {
    let names = Names::new();
    let attachments: Vec<_> = match &args.interface {
        Some(interface) => {
            let holder =
                control::holder(interface).map_err(|error| explain_missing(interface, error))?;
            let status = control::status_of(&holder, args.flows)?;
            vec![Attachment::new(&names, holder, Ok(status))]
        }
        None => control::list()?
            .into_iter()
            .map(|holder| {
                let status = control::status_of(&holder, 0);
                Attachment::new(&names, holder, status)
            })
            .collect(),
    };
    // Gateways and tunnels have other counters, and commands of their own to show them.
    let (gateways, tunnels) = match &args.interface {
        Some(_) => (Vec::new(), Vec::new()),
        None => (
            ackwise_gateway::control::list()?,
            ackwise_tunneld::control::list()?,
        ),
    };
    let left = match &args.interface {
        Some(_) => Vec::new(),
        None => left_filters(),
    };
    if format == Format::Json {
        return text::print_json(&serde_json::json!({
            "attachments": attachments,
            "gateways": gateways,
            "tunnels": tunnels,
            "left_filters": left,
        }));
    }
    if args.interface.is_some() {
        return text::print(&attachments.iter().map(details).collect::<String>());
    }
    let listed = match attachments.is_empty() {
        true => String::new(),
        false => listing(&attachments, names.netns),
    };
    let left = left.iter().map(|interface| left_on(interface));
    let shown = with_others(listed, &gateways, &tunnels) + &left.collect::<String>();
    text::print(&shown)
}

/// The interfaces of this network namespace on which a killed process has left filters of clsact.
fn left_filters() -> Vec<String> {
    let mut left = Vec::new();
    // If the kernel does not list them, the rest is shown nevertheless.
    match ackwise_datapath::control::left_filters() {
        Ok(found) => left.extend(found),
        Err(error) => tracing::debug!("{error}"),
    }
    match ackwise_gateway::control::left_filters() {
        Ok(found) => left.extend(found),
        Err(error) => tracing::debug!("{error}"),
    }
    left.sort();
    left.dedup();
    left
}

fn left_on(interface: &str) -> String {
    format!(
        "{interface}: filters that a killed process has left, and that let every packet pass; \
         `ackwise down {interface}` removes them\n"
    )
}

/// Adds the gateways and tunnels to the list of attachments.
fn with_others(mut listed: String, gateways: &[String], tunnels: &[String]) -> String {
    for interface in gateways {
        listed.push_str(&format!(
            "{interface}: a gateway's queue; `ackwise gateway status {interface}` shows it\n"
        ));
    }
    for device in tunnels {
        listed.push_str(&format!(
            "{device}: a tunnel; `ackwise tunnel status {device}` shows it\n"
        ));
    }
    match listed.is_empty() {
        true => "Nothing is attached.\n".to_owned(),
        false => listed,
    }
}

/// Explains that there is no such interface, or that it has a gateway instead, which is what its user
/// looks for.
fn explain_missing(interface: &str, error: ackwise_datapath::Error) -> anyhow::Error {
    let has_gateway = ackwise_gateway::control::status(interface).is_ok();
    match error {
        ackwise_datapath::Error::NotAttached(_) if has_gateway => anyhow::anyhow!(
            "{error}, but it has a gateway\n  `ackwise gateway status {interface}` shows it"
        ),
        ackwise_datapath::Error::NotAttached(_) if is_in(&left_filters(), interface) => {
            anyhow::anyhow!(
                "{error}, but a killed process has left filters there, which let every packet pass\n  \
                 `ackwise down {interface}` removes them"
            )
        }
        ackwise_datapath::Error::NotAttached(_) => unless_missing(interface, error.into()),
        error => error.into(),
    }
}

/// Whether an interface is in a list of current names. It may be named by another of its names.
fn is_in(names: &[String], interface: &str) -> bool {
    let index = ifreq::index_of(interface);
    index.is_some() && names.iter().any(|name| ifreq::index_of(name) == index)
}

fn listing(attachments: &[Attachment], here: u64) -> String {
    let head = [
        "INTERFACE",
        "POLICY",
        "PID",
        "UP",
        "ACKS",
        "WITHHELD",
        "SAVED",
        "BYTES SAVED",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for a in attachments {
        let policy = a.policy.split(':').next().unwrap_or_default();
        let mut row = vec![
            if a.netns == here {
                a.name()
            } else {
                format!("{} (netns {})", a.interface, a.netns)
            },
            format!("{policy}{}", how(a)),
            a.pid.to_string(),
        ];
        match (&a.stats, &a.error) {
            (Some(s), _) => row.extend([
                text::uptime(s.uptime_s),
                text::count(s.acks as f64),
                text::count(s.withheld as f64),
                text::share(s.packets_saved, s.acks),
                text::bytes(s.bytes_saved),
            ]),
            (None, why) => row.push(why.clone().unwrap_or_default()),
        }
        rows.push(row);
    }
    text::columns(&rows, &[false, false, true, true, true, true, true, true])
}

/// A note on a policy that withholds nothing now.
fn how(a: &Attachment) -> &'static str {
    match &a.stats {
        _ if a.dry_run => " (dry run)",
        Some(stats) if stats.paused => " (paused)",
        _ => "",
    }
}

fn details(a: &Attachment) -> String {
    let Some(s) = &a.stats else {
        return String::new();
    };
    let mut out = format!(
        "{}: {}{}\n{}, {}, process {}, up {}\n\n",
        a.name(),
        a.policy,
        if a.dry_run {
            " (dry run: nothing is withheld)"
        } else if s.paused {
            " (paused: every ACK passes)"
        } else {
            ""
        },
        text::json_name(&s.position),
        text::json_name(&s.attach),
        a.pid,
        text::uptime(s.uptime_s),
    );
    if let Some(why) = &s.attach_fallback {
        out.push_str(&format!("attached by clsact: {why}\n\n"));
    }
    if let Some(measured) = &s.measured_rate {
        out.push_str(&format!(
            "queue: {}\n\n",
            measured_rate(measured.rate_bps, measured.link_bps, measured.state)
        ));
    }
    out.push_str(&totals(s));
    let mut reasons: Vec<_> = s.reasons.iter().filter(|(_, n)| **n > 0).collect();
    reasons.sort_by_key(|(name, n)| (std::cmp::Reverse(**n), (*name).clone()));
    if !reasons.is_empty() {
        out.push_str("\nSegments of the ACK direction, by the reason for their verdict:\n");
    }
    let rows: Vec<_> = reasons
        .iter()
        .map(|(name, n)| vec![format!("  {name}"), n.to_string(), text::share(**n, s.acks)])
        .collect();
    out.push_str(&text::columns(&rows, &[false, true, true]));
    let failed: Vec<_> = s.fail_open.iter().filter(|(_, n)| **n > 0).collect();
    if !failed.is_empty() {
        out.push_str("\nPassed because they could not be held:\n");
        let rows: Vec<_> = failed
            .iter()
            .map(|(name, n)| vec![format!("  {name}"), n.to_string()])
            .collect();
        out.push_str(&text::columns(&rows, &[false, true]));
    }
    if !a.flows.is_empty() {
        out.push('\n');
        out.push_str(&flows(&a.flows));
    }
    out
}

/// The counters that matter, as `status` and the end of `attach` show them.
pub fn totals(s: &Stats) -> String {
    let would = |done: &str| match s.dry_run {
        true => format!("would be {done}"),
        false => done.to_owned(),
    };
    let l = &s.lateness;
    let mut rows = vec![
        vec![
            "ACKs seen".to_owned(),
            s.acks.to_string(),
            text::bytes(s.ack_bytes),
        ],
        vec![
            would("withheld"),
            s.withheld.to_string(),
            text::bytes(s.withheld_bytes),
            text::share(s.withheld, s.acks),
        ],
        vec![
            would("re-emitted"),
            s.reemitted.to_string(),
            text::bytes(s.reemitted_bytes),
        ],
        vec![
            would("saved"),
            s.packets_saved.to_string(),
            text::bytes(s.bytes_saved),
            text::share(s.packets_saved, s.acks),
        ],
        vec![
            "data segments".to_owned(),
            s.data_segments.to_string(),
            text::bytes(s.data_bytes),
        ],
        vec!["flows".to_owned(), s.flows_created.to_string()],
    ];
    let h = &s.hold_times;
    if h.count > 0 {
        rows.push(vec![
            "held for".to_owned(),
            format!("p50 {}", text::micros(h.p50_us as f64)),
            format!("p99 {}", text::micros(h.p99_us as f64)),
            format!("{} holds", text::count(h.count as f64)),
        ]);
    }
    if l.count > 0 {
        rows.push(vec![
            "past the bound".to_owned(),
            format!("p50 {}", text::micros(l.p50_us as f64)),
            format!("p99 {}", text::micros(l.p99_us as f64)),
            format!("max {}", text::micros(l.max_us as f64)),
        ]);
    }
    text::columns(&rows, &[false, true, true, true])
}

fn flows(flows: &[FlowStats]) -> String {
    let head = [
        "ACK SENDER",
        "DATA SENDER",
        "ACKS",
        "WITHHELD",
        "SAVED",
        "DATA",
        "RTT",
        "IDLE",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(flows.iter().map(|f| {
        vec![
            f.ack_sender.clone(),
            f.data_sender.clone(),
            f.acks.to_string(),
            f.withheld.to_string(),
            text::share(f.packets_saved, f.acks),
            text::bytes(f.data_bytes),
            if f.srtt_us == 0 {
                "-".to_owned()
            } else {
                text::micros(f64::from(f.srtt_us))
            },
            text::uptime(f.idle_ms as f64 / 1e3),
        ]
    }));
    text::columns(&rows, &[false, false, true, true, true, true, true, true])
}

/// Ends an attachment, wherever it runs.
pub fn detach(args: &DetachArgs, format: Format) -> anyhow::Result<()> {
    let interface = &args.interface;
    let stats = control::detach(interface)?;
    if format == Format::Json {
        return text::print_json(
            &serde_json::json!({ "event": "detached", "interface": interface, "stats": stats }),
        );
    }
    match stats {
        Some(s) => text::print(&format!("detached from {interface}\n{}", totals(&s))),
        None => text::print(&format!(
            "removed what a killed process left on {interface}\n"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_attached_only_where_nothing_runs() {
        let names = |name: &str| vec![name.to_owned()];
        let none = with_others(String::new(), &[], &[]);
        assert_eq!(none, "Nothing is attached.\n");
        let both = with_others(String::new(), &names("wan0"), &names("awtun0"));
        assert!(!both.contains("Nothing"), "{both}");
        assert!(both.contains("wan0: a gateway's queue"), "{both}");
        assert!(both.contains("awtun0: a tunnel"), "{both}");
    }

    #[test]
    fn a_dry_run_says_so() {
        let s = Stats {
            dry_run: true,
            acks: 10,
            withheld: 5,
            reemitted: 2,
            packets_saved: 3,
            ..Stats::default()
        };
        let shown = totals(&s);
        for row in ["would be withheld", "would be re-emitted", "would be saved"] {
            assert!(shown.contains(row), "{shown}");
        }
        let withheld = shown.lines().find(|line| line.contains("be withheld"));
        assert!(withheld.unwrap().ends_with("50.0 %"), "{shown}");
        assert!(!totals(&Stats::default()).contains("would be"));
    }
}
