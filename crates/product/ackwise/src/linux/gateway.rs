//! `ackwise gateway`.

use std::path::Path;
use std::time::{Duration, Instant};

use ackwise_cli::error::BadInput;
use ackwise_cli::{Format, text};
use ackwise_config::ConfigError;
use ackwise_gateway::{Config, Error, Prepared, Stats, control, describe};
use ackwise_netdev::daemon::{Daemon, Supervisor};
use ackwise_netdev::ifreq;
use serde::Serialize;
use serde_json::json;

use crate::linux::cli::gateway::{
    GatewayCommand, GatewayDownArgs, GatewayStatusArgs, GatewayUpArgs,
};
use crate::linux::per_daemon::PerDaemon;
use crate::linux::present::{named, unless_missing};
use crate::linux::rates::{measured_rate, rate};
use crate::linux::shared_daemon::{SharedDaemon, listen_if_requested};
use crate::linux::up::GATEWAY_MAX_BPS;
use crate::linux::watch::{EXIT_TIMEOUT, reason, watch};

/// Runs a subcommand of `ackwise gateway`.
pub fn gateway(command: &GatewayCommand, format: Format) -> anyhow::Result<()> {
    match command {
        GatewayCommand::Up(args) => up(args, format),
        GatewayCommand::Status(args) => status(args, format),
        GatewayCommand::Down(args) => down(args, format),
        GatewayCommand::Check { files } => check(files, format),
    }
}

/// The configuration from the file, or from the arguments.
fn config(args: &GatewayUpArgs) -> anyhow::Result<Config> {
    let Some(file) = &args.config else {
        return Ok(config_from_arguments(args)?);
    };
    let config = Config::load(file)?;
    match &args.interface {
        Some(interface_argument) if *interface_argument != config.interface => Err(BadInput::new(format!(
            "INTERFACE is {interface_argument}, but {} is for {}",
            file.display(),
            config.interface
        ))
        .hint(format!(
            "set interface = {interface_argument:?} in the file, name {} here, or name another file",
            config.interface
        ))
        .into()),
        _ => Ok(config),
    }
}

/// Builds a configuration file with one line per argument, so that the line of a mistake identifies
/// the argument.
fn config_from_arguments(args: &GatewayUpArgs) -> Result<Config, BadInput> {
    let (Some(interface), Some(rate)) = (&args.interface, &args.rate) else {
        return Err(
            BadInput::new("an interface and --rate are needed, or --config")
                .hint("`ackwise gateway up wan0 --rate '1 Mbit/s'`, or `--config FILE`"),
        );
    };
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let first = args.acks_first.as_ref().map(|most| match most {
        None => "true".to_owned(),
        Some(most) => most.to_string(),
    });
    let red = args.red || args.ecn || args.acc;
    // The other options imply the queue.
    let implied = match (red, &first) {
        (true, _) => "red",
        (false, Some(_)) => "drop-tail",
        (false, None) => "fq_codel",
    };
    let discipline = args.discipline.as_deref().unwrap_or(implied);
    let is_fq_codel = discipline == "fq_codel";
    // Only where there can be marks: nobody is told about an option that was not given.
    let ecn = args.ecn || (args.acc && matches!(discipline, "red" | "fq_codel"));
    let limit = args
        .limit
        .as_deref()
        .or((!is_fq_codel).then_some("100 packets"));
    let share = args.ack_share.as_deref().or(is_fq_codel.then_some("25 %"));
    let filter = args
        .ack_filter
        .as_deref()
        .or(is_fq_codel.then_some("rfc3449-sack"));
    let lines = [
        ("INTERFACE", "interface", Some(quoted(interface))),
        ("--rate", "rate", Some(quoted(rate))),
        (
            "--min-rate",
            "min_rate",
            args.min_rate.as_deref().map(quoted),
        ),
        ("--overhead", "overhead", Some(args.overhead.to_string())),
        ("--acc", "acc", args.acc.then(|| "true".to_owned())),
        ("", "[queue]", None),
        ("--limit", "limit", limit.map(quoted)),
        ("--discipline", "discipline", Some(quoted(discipline))),
        ("--ack-share", "ack_share", share.map(quoted)),
        ("--ecn", "ecn", ecn.then(|| "true".to_owned())),
        (
            "--ack-filter",
            "ack_filter",
            filter.filter(|rule| *rule != "none").map(quoted),
        ),
        ("--acks-first", "acks_first", first),
    ];
    let (mut text, mut arguments) = (String::new(), Vec::new());
    for (argument, key, value) in lines {
        match value {
            Some(value) => text.push_str(&format!("{key} = {value}\n")),
            None if argument.is_empty() => text.push_str(&format!("{key}\n")),
            None => continue,
        }
        arguments.push((argument, key));
    }
    let parsed = Config::parse(Path::new("(arguments)"), &text);
    parsed.map_err(|error| explain_in_arguments(&error, &arguments))
}

/// What is wrong with a file made by [`config_from_arguments`], in terms of the arguments.
/// `arguments` has the argument and the key of each line.
fn explain_in_arguments(error: &ConfigError, arguments: &[(&str, &str)]) -> BadInput {
    let message = error.diagnostics().iter().map(|mistake| {
        let line = mistake.line.checked_sub(1);
        let line = line.and_then(|line| arguments.get(line));
        let (argument, key) = line.unwrap_or(&("", ""));
        let mut message = mistake.message.replace(&format!("'{key}'"), argument);
        if *argument == "--ack-filter" && message.contains("; known: ") {
            // Only the argument has this name: in a file the key is left out.
            message.push_str(", none");
        }
        match mistake.source_line.split_once(" = ") {
            Some((_, value)) if !argument.is_empty() => {
                let own = format!("{argument}: ");
                let message = message.strip_prefix(&own).unwrap_or(&message);
                format!("{argument} {value}: {message}")
            }
            _ => message,
        }
    });
    BadInput::new(message.collect::<Vec<_>>().join("\n"))
}

fn up(args: &GatewayUpArgs, format: Format) -> anyhow::Result<()> {
    let config = config(args)?;
    // Block signals before any thread starts, so that every thread leaves them to this one.
    let supervisor = Supervisor::new()?;
    let listener = listen_if_requested(args.metrics, args.config.as_deref(), config.metrics)?;
    let started = Instant::now();
    let mut prepared = Prepared::new(config.clone(), args.attach_mode.into())?;
    // The registry cannot be read any more once this process is another user's.
    let is_thinned = is_thinned(&config.interface)?;
    // Also before any thread, since threads inherit the privileges of this one.
    prepared.drop_privileges(args.user.as_deref())?;
    let shared = SharedDaemon::default();
    let server = listener
        .map(|listener| shared.serve(listener))
        .transpose()?;
    shared.set(prepared.start()?);
    let stats = shared.stats()?;
    let metrics = server.as_ref().map(|it| it.address().to_string());
    let what = format!(
        "{}: {} at {}",
        config.interface,
        describe(&config.queue),
        rate(config.rate_bps)
    );
    supervisor.ready(&what);
    for doubt in doubts(&config.interface, config.rate_bps, is_thinned) {
        tracing::warn!("{doubt}");
    }
    if format == Format::Json {
        text::print(&format!(
            "{}\n",
            json!({ "event": "up", "stats": stats, "metrics": metrics })
        ))?;
    } else {
        let hint = if text::watched() {
            "; Ctrl-C ends it"
        } else {
            ""
        };
        text::print(&format!(
            "gateway of {what}{}{hint}\n{}",
            metrics
                .map(|at| format!("; metrics on http://{at}/metrics"))
                .unwrap_or_default(),
            thin(config.rate_bps, &config.interface)
        ))?;
    }
    let until = args.duration.map(|duration| started + duration);
    let outcome = watch(&supervisor, &shared, until, format, live)?;
    let why = reason(outcome, "ackwise gateway down");
    supervisor.stopping();
    let gateway = shared.take()?;
    let last = gateway.stats().unwrap_or_default();
    let ended = gateway.stop();
    // Last, so that no client of the metrics delays the steps above.
    drop(server);
    let stats = ended.as_ref().unwrap_or(&last);
    if format == Format::Json {
        let answer = json!({ "event": "down", "why": why, "stats": stats });
        text::print(&format!("{answer}\n"))?;
    } else {
        let line = format!("gateway of {} ended ({why})\n", config.interface);
        text::print(&format!("{line}{}", details(stats)))?;
    }
    ended.map(|_| ()).map_err(Into::into)
}

/// Whether ACKs are withheld on this interface. A dry run withholds none.
fn is_thinned(interface: &str) -> Result<bool, ackwise_datapath::Error> {
    match ackwise_datapath::control::holder(interface) {
        Ok(holder) => Ok(!holder.dry_run),
        Err(ackwise_datapath::Error::NotAttached(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What speaks against a gateway here. It runs all the same.
fn doubts(interface: &str, rate_bps: u64, is_thinned: bool) -> Vec<String> {
    let mut doubts = Vec::new();
    if is_thinned {
        doubts.push(beside_attach(interface));
    }
    if rate_bps > GATEWAY_MAX_BPS {
        doubts.push(format!(
            "{} is more than the {} that a gateway manages with small packets as well: where the \
             kernel has cake, use `ackwise up {interface} --up RATE` instead",
            rate(rate_bps),
            rate(GATEWAY_MAX_BPS)
        ));
    }
    doubts
}

/// The warning for a gateway and an attachment on one interface.
pub fn beside_attach(interface: &str) -> String {
    format!(
        "{interface} has a gateway and an attachment: ACKs are withheld only after they have \
         waited in the queue, and held ones pass it by; attach on the inner side, or end one of \
         them (`ackwise detach {interface}`, `ackwise gateway down {interface}`)"
    )
}

/// How long a full packet takes, in milliseconds, before advice is printed.
const LONG_PACKET_MS: u64 = 100;

/// Advice for a rate at which ACKs wait long for a full packet; empty for faster ones.
fn thin(rate_bps: u64, interface: &str) -> String {
    let ms = |bytes: u64| bytes * 8_000 / rate_bps.max(1);
    let full = ms(1500);
    if full < LONG_PACKET_MS {
        return String::new();
    }
    format!(
        "at this rate a packet of 1500 bytes takes {full} ms, and ACKs wait for it; \
         `ip link set dev {interface} mtu 576` makes that {} ms, for IPv4 (IPv6 needs 1280)\n",
        ms(576)
    )
}

/// One line on what happened between two reads of the counters, `elapsed` apart.
pub fn live(before: &Stats, now: &Stats, elapsed: Duration) -> String {
    let span = elapsed.as_secs_f64().max(1e-3);
    let per_s = |count: fn(&Stats) -> u64| count(now).saturating_sub(count(before)) as f64 / span;
    format!(
        "{} packets/s in, {} out ({}); {} ACKs/s redundant, {} marked/s, {} dropped/s; {} wait, {} \
         at most",
        text::count(per_s(|s| s.read).round()),
        text::count(per_s(|s| s.sent.packets).round()),
        rate((per_s(|s| s.sent.bytes) * 8.0) as u64),
        text::count(per_s(|s| s.filtered.packets).round()),
        text::count(per_s(|s| s.marked).round()),
        text::count(per_s(|s| s.dropped.total()).round()),
        now.waiting.packets,
        text::micros(now.waiting.max_wait_us as f64),
    )
}

/// The counters of a gateway.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    stats: Stats,
    /// The interface's current name, if it was renamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    interface_now: Option<String>,
}

impl Shown {
    /// The counters of the gateway of an interface, by its current name.
    fn new(interface: &str, stats: Stats) -> Self {
        // The name that was given may be another one of the interface.
        let now = ifreq::index_of(interface).and_then(ifreq::name_at);
        Self {
            interface_now: now.filter(|now| *now != stats.interface),
            stats,
        }
    }

    fn details(&self) -> String {
        let name = named(&self.stats.interface, self.interface_now.as_deref());
        details_of(&name, &self.stats)
    }
}

fn status(args: &GatewayStatusArgs, format: Format) -> anyhow::Result<()> {
    let gateways = match &args.interface {
        Some(interface) => {
            let stats = control::status(interface).map_err(|e| explain_missing(interface, e))?;
            PerDaemon::only(Shown::new(interface, stats))
        }
        None => PerDaemon::of(
            control::list()?,
            |name| name,
            |interface| match control::status(interface) {
                // It may have ended since the list was made.
                Err(Error::NotThere(_)) => Ok(None),
                stats => Ok(Some(Shown::new(interface, stats?))),
            },
        ),
    };
    match format {
        Format::Json => text::print_json(&json!({ "gateways": gateways.done }))?,
        Format::Text if gateways.is_empty() => {
            text::print("No interface of this network namespace has a gateway.\n")?;
        }
        Format::Text => text::print(&gateways.done.iter().map(Shown::details).collect::<String>())?,
    }
    gateways.finish()
}

/// Explains that there is no such interface.
fn explain_missing(interface: &str, error: Error) -> anyhow::Error {
    match error {
        Error::NotThere(_) => unless_missing(interface, error.into()),
        error => error.into(),
    }
}

fn down(args: &GatewayDownArgs, format: Format) -> anyhow::Result<()> {
    let stats = control::down(&args.interface).map_err(|e| explain_missing(&args.interface, e))?;
    let pid = stats.pid;
    let shown = Shown::new(&args.interface, stats);
    if !control::wait_ended(pid, EXIT_TIMEOUT)? {
        tracing::warn!("process {pid} has not ended yet");
    }
    if format == Format::Json {
        return text::print_json(&shown);
    }
    text::print(&shown.details())
}

fn check(files: &[std::path::PathBuf], format: Format) -> anyhow::Result<()> {
    let load = |file: &Path| Config::load(file);
    crate::linux::check::files(files, format, load, |config| {
        format!(
            "{}, {} at {}",
            config.interface,
            describe(&config.queue),
            rate(config.rate_bps)
        )
    })
}

pub fn details(stats: &Stats) -> String {
    details_of(&stats.interface, stats)
}

fn details_of(name: &str, stats: &Stats) -> String {
    let n = |count: u64| count.to_string();
    let shaped = match stats.measured {
        None => rate(stats.rate_bps),
        Some(now) => measured_rate(now.rate_bps, now.link_bps, now.state),
    };
    let (passed, waiting) = (&stats.passed, &stats.waiting);
    let mut rows = vec![
        vec!["read".to_owned(), n(stats.read)],
        vec!["sent".to_owned(), n(stats.sent.packets)],
        vec!["redundant ACKs".to_owned(), n(stats.filtered.packets)],
        vec!["marked".to_owned(), n(stats.marked)],
    ];
    let dropped = stats.dropped.causes();
    let dropped = dropped.map(|it| (format!("dropped: {}", it.words), it.packets));
    let passed = [
        ("passed: not IP", passed.other),
        ("passed: neighbour discovery", passed.neighbour),
        ("passed: no sign of life", passed.unattended),
    ];
    let passed = passed.map(|(what, count)| (what.to_owned(), count));
    for (what, count) in dropped.into_iter().chain(passed) {
        if count > 0 {
            rows.push(vec![what, n(count)]);
        }
    }
    if let Some(acc) = &stats.acc {
        rows.push(vec!["marks told to receivers".to_owned(), n(acc.marks)]);
        rows.push(vec!["by segments of data".to_owned(), n(acc.echoes)]);
    }
    for (reason, count) in &stats.reasons {
        rows.push(vec![format!("ACKs: {reason}"), n(*count)]);
    }
    rows.push(vec!["waiting".to_owned(), n(waiting.packets)]);
    rows.push(vec!["waiting at most".to_owned(), n(waiting.max_packets)]);
    format!(
        "{} ({} at {}; process {}, {}, {})\n{}longest wait {}; {:.1} s up, {:.3} CPU s\n",
        name,
        stats.discipline,
        shaped,
        stats.pid,
        stats.device,
        text::json_name(&stats.attach),
        text::columns(&rows, &[false, true]),
        text::micros(waiting.max_wait_us as f64),
        stats.uptime_s,
        stats.cpu_s,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use crate::linux::cli;
    use ackwise_config::queues::Queue;
    use clap::Parser;

    fn parsed(arguments: &[&str]) -> anyhow::Result<Config> {
        let line = ["ackwise", "gateway", "up"].iter().chain(arguments);
        let cli = Cli::try_parse_from(line)?;
        match cli.command {
            Command::Live(cli::Command::Gateway(GatewayCommand::Up(args))) => config(&args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn arguments_are_a_configuration() {
        let config = parsed(&[
            "wan0",
            "--rate",
            "1 Mbit/s",
            "--overhead",
            "18",
            "--ecn",
            "--ack-filter",
            "cake",
            "--acks-first=4",
        ])
        .unwrap();
        assert_eq!((config.rate_bps, config.overhead), (1_000_000, 18));
        let text = "drop";
        assert!(!describe(&config.queue).contains(text));
        assert_eq!(
            describe(&config.queue),
            "RED with ECN, 100 packets, ACK filter cake, up to 4 ACKs first"
        );
        let bare = parsed(&["wan0", "--rate", "1 Mbit/s"]).unwrap();
        assert_eq!(bare.queue, Queue::for_uplink());
        let plain = parsed(&[
            "wan0",
            "--rate",
            "1 Mbit/s",
            "--ack-filter",
            "none",
            "--ack-share",
            "10 %",
            "--limit",
            "500 packets",
        ]);
        assert_eq!(
            describe(&plain.unwrap().queue),
            "fq_codel with ECN, 500 packets, 10 % for ACKs"
        );
        let text = parsed(&["wan0", "--rate", "1 Mbit/s", "--red", "--ack-share", "10 %"]);
        let text = text.unwrap_err().to_string();
        assert!(
            text.starts_with("--ack-share \"10 %\": --ack-share belongs to fq_codel"),
            "{text}"
        );
        let plain = parsed(&[
            "ppp0",
            "--rate",
            "8 kbit/s",
            "--limit",
            "9 kB",
            "--acks-first",
        ]);
        assert_eq!(
            describe(&plain.unwrap().queue),
            "drop-tail, 9000 B, ACKs first"
        );
    }

    #[test]
    fn mistakes_in_arguments_name_the_argument() {
        let error = parsed(&["wan0", "--rate", "1 MBit/s"]).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("--rate \"1 MBit/s\": "), "{text}");
        assert_eq!(text.matches("--rate").count(), 1, "{text}");
        let error = parsed(&["wan0", "--rate", "1 Mbit/s", "--ack-filter", "rfc3448"]);
        let text = error.unwrap_err().to_string();
        assert!(text.starts_with("--ack-filter \"rfc3448\": "), "{text}");
        assert!(text.contains("did you mean 'rfc3449'"), "{text}");
        let error = parsed(&["wan0", "--rate", "1 Mbit/s", "--ack-filter", "foo"]);
        let text = error.unwrap_err().to_string();
        assert!(text.ends_with("cake-aggressive, none"), "{text}");
        let error = parsed(&["wan0", "--rate", "1 Mbit/s", "--min-rate", "2 Mbit/s"]);
        let text = error.unwrap_err().to_string();
        assert!(
            text.starts_with("--min-rate \"2 Mbit/s\": --min-rate must be between"),
            "{text}"
        );
        let two = ["wan/0", "--rate", "1 bit/s", "--overhead", "300"];
        let text = parsed(&two).unwrap_err().to_string();
        let starts = [
            "INTERFACE \"wan/0\": ",
            "--rate \"1 bit/s\": ",
            "--overhead 300: ",
        ];
        assert_eq!(text.lines().count(), starts.len(), "{text}");
        for (line, start) in text.lines().zip(starts) {
            assert!(line.starts_with(start), "{line}");
        }
        assert!(!text.contains("(arguments)"), "{text}");
        // An option that --acc implies is not blamed on anybody.
        let acc = ["wan0", "--rate", "1 Mbit/s", "--acc", "--discipline"];
        for (discipline, says) in [
            ("drop-tail", "--acc true: --acc tells receivers"),
            ("cake", "--discipline \"cake\": "),
            ("rde", "--discipline \"rde\": "),
        ] {
            let arguments = [&acc[..], &[discipline]].concat();
            let text = parsed(&arguments).unwrap_err().to_string();
            assert!(text.starts_with(says), "{text}");
            assert!(
                text.lines().count() == 1 && !text.contains("--ecn"),
                "{text}"
            );
        }
        for discipline in ["red", "fq_codel"] {
            let config = parsed(&[&acc[..], &[discipline]].concat()).unwrap();
            assert!(config.acc && config.queue.marks(), "{discipline}");
        }
        assert!(parsed(&["wan0"]).unwrap_err().is::<BadInput>());
    }

    #[test]
    fn a_gateway_beside_an_attachment_or_at_a_high_rate_is_doubtful() {
        assert!(doubts("wan0", 200_000_000, false).is_empty());
        let fast = doubts("wan0", 10_000_000_000, false);
        assert!(
            fast.len() == 1 && fast[0].contains("200.000 Mbit/s"),
            "{fast:?}"
        );
        let beside = doubts("wan0", 1_000_000, true);
        assert!(
            beside.len() == 1 && beside[0].contains("`ackwise detach wan0`"),
            "{beside:?}"
        );
    }

    #[test]
    fn a_thin_link_is_told_of_long_packets() {
        assert_eq!(thin(1_000_000, "wan0"), "");
        let message = thin(31_000, "wan0");
        assert!(
            message.contains("takes 387 ms") && message.contains("makes that 148 ms"),
            "{message}"
        );
        assert!(message.contains("dev wan0 mtu 576"), "{message}");
    }

    #[test]
    fn what_was_dropped_is_shown_by_cause() {
        let mut stats = Stats::default();
        (stats.dropped.full, stats.dropped.down) = (3, 2);
        stats.waiting.max_packets = 7;
        let text = details(&stats);
        for row in [
            "dropped: queue full      3\n",
            "dropped: interface down  2\n",
            "waiting at most          7\n",
        ] {
            assert!(text.contains(row), "no {row:?} in\n{text}");
        }
        assert!(
            !text.contains("refused") && !text.contains("passed"),
            "{text}"
        );
    }

    #[test]
    fn a_line_a_second() {
        let before = Stats::default();
        let mut now = Stats {
            read: 3000,
            ..Stats::default()
        };
        now.sent.packets = 1000;
        now.sent.bytes = 125_000;
        now.filtered.packets = 2000;
        now.dropped.full = 4;
        now.waiting.packets = 7;
        now.waiting.max_wait_us = 12_000;
        assert_eq!(
            live(&before, &now, Duration::from_secs(2)),
            "1.50k packets/s in, 500 out (500.0 kbit/s); 1.00k ACKs/s redundant, 0 marked/s, 2 \
             dropped/s; 7 wait, 12.0 ms at most"
        );
    }
}
