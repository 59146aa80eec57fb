//! The configuration of a gateway: a small TOML file with the queue of a link.
//!
//! ```toml
//! interface = "wan0"
//! rate = "1 Mbit/s"
//! overhead = 14
//! ```
//!
//! Without `queue`, the queue is [`Queue::for_uplink`].

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::Path;

use crate::diagnostic::{Collector, ConfigError};
use crate::queue_keys;
use crate::queues::Queue;
use crate::section::Section;
use crate::source::Source;
use crate::tree::{Kind, Table, Value};

/// The largest IP packet that a queue must hold.
const MTU: u32 = 1500;
/// The maximum length of an interface name in bytes.
const MAX_NAME: usize = 15;
/// The allowed rates: from slower than any modem to the most that one core can be asked for.
const RATES: [u64; 2] = [1_000, 100_000_000_000];

/// The configuration of a gateway.
#[derive(Debug, Clone, PartialEq)]
pub struct Gateway {
    /// The interface whose outgoing direction is slow.
    pub interface: String,
    /// The rate that it is shaped to, in bits per second.
    pub rate_bps: u64,
    /// If set, the rate is measured, between this and `rate_bps`.
    pub min_rate_bps: Option<u64>,
    /// Bytes that each IP packet costs in addition to its own length.
    pub overhead: u32,
    /// The queue before the link.
    pub queue: Queue,
    /// Whether the data receivers are told of marks on ACKs (ACC, RFC 3449 §4.3).
    pub acc: bool,
    /// The address that metrics are served on.
    pub metrics: Option<SocketAddr>,
}

impl Gateway {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The file cannot be read, or has mistakes, each with line and column.
    pub fn load(path: impl AsRef<Path>) -> Result<Gateway, ConfigError> {
        let source = Source::read(path.as_ref())?;
        source.check(gateway)
    }

    /// Checks a text; `name` stands for the file in messages.
    ///
    /// # Errors
    /// The text has mistakes, each with line and column.
    pub fn parse(name: impl AsRef<Path>, text: &str) -> Result<Gateway, ConfigError> {
        let source = Source {
            path: name.as_ref().to_owned(),
            text: text.to_owned(),
        };
        source.check(gateway)
    }
}

fn gateway(tree: &Table, errors: &RefCell<Collector>) -> Option<Gateway> {
    let known = [
        "interface",
        "rate",
        "min_rate",
        "overhead",
        "queue",
        "acc",
        "metrics",
    ];
    let top = Section::open(tree, &(0..0), "a gateway", &known, errors);
    let interface = top.required_word("interface", "\"wan0\"");
    if let Some(word) = &interface {
        let fine = (1..=MAX_NAME).contains(&word.text.len())
            && !matches!(word.text.as_str(), "." | "..")
            && !word.text.contains(|c: char| c == '/' || c.is_whitespace());
        if !fine {
            let message = format!("'{}' is not an interface name", word.text);
            top.error(&word.span, message);
        }
    }
    if !top.has("rate") {
        let message = "a gateway has no 'rate'; add rate = \"1 Mbit/s\"";
        top.error(&top.span, message);
    }
    let rate_bps = top.rate_as_for_tc("rate");
    if rate_bps.is_some_and(|rate| !(RATES[0]..=RATES[1]).contains(&rate)) {
        let message = "'rate' must be between 1 kbit/s and 100 Gbit/s";
        top.error(&top.span_of("rate"), message);
    }
    let min_rate_bps = top.rate_as_for_tc("min_rate");
    if let (Some(least), Some(most)) = (min_rate_bps, rate_bps)
        && !(RATES[0]..most).contains(&least)
    {
        let message =
            "'min_rate' must be between 1 kbit/s and 'rate': the rate is measured between them";
        top.error(&top.span_of("min_rate"), message);
    }
    let overhead = top.whole("overhead", 0, 256).unwrap_or(0);
    let queue = if top.has("queue") {
        queue_keys::queue(&top, MTU + overhead)
    } else {
        Some(Queue::for_uplink())
    };
    let discipline = of_queue(&top, "discipline").and_then(|it| match &it.kind {
        Kind::Text(name) => Some((name.as_str(), &it.span)),
        _ => None,
    });
    // Also if other keys of the queue are wrong or missing.
    if let Some(("cake", span)) = discipline {
        top.error(
            span,
            "this discipline is the kernel's own: set it with `tc qdisc`, without a \
             gateway; the gateway knows \"fq_codel\", \"red\" and \"drop-tail\"",
        );
    }
    let acc = top.flag("acc").unwrap_or(false);
    // A discipline that a gateway does not know, and an `ecn` that does not fit the discipline, have
    // been refused already.
    let is_unknown =
        discipline.is_some_and(|(name, _)| !matches!(name, "fq_codel" | "red" | "drop-tail"));
    let marks = of_queue(&top, "ecn").is_some_and(|it| matches!(it.kind, Kind::Bool(true)));
    let is_refused = is_unknown || marks;
    if acc && !is_refused && queue.as_ref().is_some_and(|queue| !queue.marks()) {
        top.error(
            &top.span_of("acc"),
            "'acc' tells receivers of marked ACKs, and this queue marks none; give it \
             discipline = \"red\", ecn = true",
        );
    }
    let metrics = top.socket_address("metrics");
    Some(Gateway {
        interface: interface?.text,
        rate_bps: rate_bps?,
        min_rate_bps,
        overhead,
        queue: queue?,
        acc,
        metrics,
    })
}

/// The value of a key of the table `queue`.
fn of_queue<'a>(top: &Section<'a>, key: &str) -> Option<&'a Value> {
    match &top.value("queue")?.kind {
        Kind::Table(table) => table.get(key),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_written_as_in_the_other_files_and_arguments() {
        let text = "interface = \"wan0\"\nrate = \"1mbit\"\nmin_rate = \"300 kbit/s\"\n";
        let gateway = Gateway::parse("test", text).unwrap();
        assert_eq!(gateway.rate_bps, 1_000_000);
        assert_eq!(gateway.min_rate_bps, Some(300_000));
    }

    /// It is refused whatever else is missing: nobody adds a limit in vain.
    #[test]
    fn cake_is_refused_without_a_limit_too() {
        for queue in [
            "{ discipline = \"cake\" }",
            "{ discipline = \"cake\", limit = \"9 packets\" }",
        ] {
            let text = format!("interface = \"wan0\"\nrate = \"1 Mbit/s\"\nqueue = {queue}");
            let error = Gateway::parse("test", &text).unwrap_err().to_string();
            assert!(error.contains("the kernel's own"), "{error}");
        }
    }

    /// One message says how to mend it: two would be mended twice.
    #[test]
    fn acc_without_marks_is_refused_once() {
        let of = |queue: &str| {
            let start = "interface = \"wan0\"\nrate = \"1 Mbit/s\"\nacc = true\nqueue = ";
            let error = Gateway::parse("test", &format!("{start}{queue}")).unwrap_err();
            let found = error.diagnostics().iter();
            found.map(|it| it.message.clone()).collect::<Vec<_>>()
        };
        for (queue, says) in [
            ("\"9 packets\"", "this queue marks none"),
            (
                "{ discipline = \"red\", limit = \"9 packets\" }",
                "this queue marks none",
            ),
            (
                "{ discipline = \"drop-tail\", limit = \"9 packets\", ecn = true }",
                "'ecn' belongs to RED",
            ),
            (
                "{ discipline = \"cake\", limit = \"9 packets\" }",
                "the kernel's own",
            ),
            (
                "{ discipline = \"rde\", limit = \"9 packets\" }",
                "did you mean 'red'?",
            ),
        ] {
            let found = of(queue);
            let [only] = &found[..] else {
                panic!("{queue}: {found:?}");
            };
            assert!(only.contains(says), "{queue}: {only}");
        }
    }

    /// Otherwise every full packet is dropped, even by an empty queue.
    #[test]
    fn a_queue_holds_a_full_packet_with_its_overhead() {
        let of = |overhead: u32, queue: &str| {
            let text = format!(
                "interface = \"wan0\"\nrate = \"1 Mbit/s\"\noverhead = {overhead}\nqueue = {queue}"
            );
            Gateway::parse("test", &text)
        };
        for queue in [
            "\"1510 B\"",
            "{ discipline = \"fq_codel\", limit = \"9 packets\", memory_limit = \"1510 B\" }",
        ] {
            assert!(of(10, queue).is_ok(), "{queue}");
            let error = of(11, queue).unwrap_err();
            let message = &error.diagnostics()[0].message;
            assert_eq!(
                message,
                "this queue cannot hold a single packet of 1511 bytes"
            );
        }
    }
}
