//! The advice, in three sentences: whether thinning pays, which command to use, and what to expect
//! and how certain that is.

use crate::analysis::{Advice, Analysis, FlowFinding, Pays, PolicyFinding};
use crate::options::Options;

/// The policy that `ackwise up` attaches.
const DEFAULT_POLICY: &str = "adaptive";
/// Fewer ACKs than this say nothing.
const MIN_ACKS: u64 = 200;
/// ACKs that are less than this share of the packets cost little.
const MIN_ACK_SHARE: f64 = 0.10;
/// A policy that saves a smaller share is not worthwhile.
const MIN_SAVED_SHARE: f64 = 0.20;
/// ACKs whose peak exceeds this share of the uplink take capacity from other traffic.
const SCARCE_PEAK_SHARE: f64 = 0.20;

pub(crate) fn advise(a: &Analysis, options: &Options) -> Advice {
    let first = a.policies.first();
    let Some(policy) = first.filter(|p| p.pure_acks >= MIN_ACKS) else {
        return Advice {
            pays: Pays::Unknown,
            command: None,
            text: vec![
                format!(
                    "{} pure ACKs are too few to tell whether thinning them pays.",
                    a.tcp.acks
                ),
                "Capture some downloads, at the host that receives or at the router before the \
                 uplink: tcpdump -i IFACE -s 128 -w FILE tcp."
                    .to_owned(),
                "Begin the capture before the downloads: the SYNs of a connection say which TCP \
                 options are in use."
                    .to_owned(),
            ],
        };
    };
    let pays = pays(a, policy);
    let command = match pays {
        Pays::Yes | Pays::Little if policy.policy == DEFAULT_POLICY => {
            Some("ackwise up IFACE".to_owned())
        }
        Pays::Yes | Pays::Little => {
            Some(format!("ackwise attach IFACE --policy {}", policy.policy))
        }
        Pays::No | Pays::Unknown => None,
    };
    Advice {
        text: vec![
            verdict_sentence(a, policy, pays),
            command_sentence(pays, &command),
            expectation_sentence(a, policy, options),
        ],
        pays,
        command,
    }
}

fn pays(a: &Analysis, policy: &PolicyFinding) -> Pays {
    let scarce = a
        .line
        .ack_peak_share_of_uplink
        .is_some_and(|s| s >= SCARCE_PEAK_SHARE)
        || a.line.k.is_some_and(|k| k > 0.5)
        || a.airtime
            .as_ref()
            .is_some_and(|t| t.ack_share_shared >= MIN_ACK_SHARE);
    if policy.saved_share < MIN_SAVED_SHARE && one_direction(a) {
        Pays::Unknown
    } else if policy.saved_share < MIN_SAVED_SHARE {
        Pays::No
    } else if scarce {
        Pays::Yes
    } else if a.tcp.ack_share_of_packets < MIN_ACK_SHARE {
        Pays::No
    } else {
        Pays::Little
    }
}

/// Whether most ACKs appear without the data that they acknowledge.
fn one_direction(a: &Analysis) -> bool {
    let acks = |f: &FlowFinding| f.acks;
    let alone = a.flows.iter().filter(|f| f.data_segments == 0);
    2 * alone.map(acks).sum::<u64>() > a.flows.iter().map(acks).sum()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn verdict_sentence(a: &Analysis, policy: &PolicyFinding, pays: Pays) -> String {
    let acks = format!(
        "ACKs are {} of the packets and {} of the bytes",
        percent(a.tcp.ack_share_of_packets),
        percent(a.tcp.ack_share_of_bytes)
    );
    let scarce = match (a.line.ack_peak_share_of_uplink, &a.airtime) {
        (Some(share), _) => format!(", and up to {} of the uplink", percent(share)),
        (None, Some(time)) => format!(
            ", and {} of the airtime or more",
            percent(time.ack_share_shared)
        ),
        (None, None) => String::new(),
    };
    let verdict = match pays {
        Pays::Yes => "they may hold downloads back, so thinning them should pay",
        Pays::Little => {
            "thinning them saves packets, and with them CPU time and airtime; nothing here shows \
             that downloads would be faster"
        }
        Pays::Unknown => "to tell whether thinning them pays takes a capture of both directions",
        _ if policy.saved_share < MIN_SAVED_SHARE => "hardly any of them can be withheld",
        _ => "thinning them saves little",
    };
    format!("{acks}{scarce}: {verdict}.")
}

fn command_sentence(pays: Pays, command: &Option<String>) -> String {
    match command {
        _ if pays == Pays::Unknown => {
            "Capture both directions, where the data passes as well: tcpdump \
                                       -i IFACE -s 128 -w FILE tcp."
                .to_owned()
        }
        Some(command) => format!(
            "Try `{command}`; with --{} it only shows what it would do.",
            if command.contains("attach") {
                "dry-run"
            } else {
                "explain"
            }
        ),
        None => "Leave the ACKs as they are.".to_owned(),
    }
}

fn expectation_sentence(a: &Analysis, policy: &PolicyFinding, options: &Options) -> String {
    let mut text = format!(
        "{} would have saved {} of {} ACKs",
        policy.policy,
        percent(policy.saved_share),
        policy.pure_acks
    );
    let mut doubts = Vec::new();
    if options.up_bps.is_none() {
        doubts.push("the uplink's rate is not known (--up)");
    }
    if one_direction(a) {
        doubts.push("the capture has one direction only");
    } else if a.flows.iter().all(|f| f.srtt_us.is_none()) {
        doubts.push("without TCP timestamps no round-trip time is known");
    }
    text.push_str("; senders that see fewer ACKs send differently, so goodput has to be measured");
    if !doubts.is_empty() {
        text.push_str(" (");
        text.push_str(&doubts.join("; "));
        text.push(')');
    }
    text.push('.');
    text
}
