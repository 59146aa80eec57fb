//! `ackwise probe`: finds out what a path does to ACKs, with a partner at its other end.

use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::thread::JoinHandle;
use std::time::Duration;

use ackwise_cli::error::BadInput;
use ackwise_cli::{Format, text};
use ackwise_netdev::daemon::{Daemon, Ended, Supervisor};
use ackwise_netdev::privileges::{PrivilegedOps, User, drop_all};
use ackwise_probe::{Client, Error, INTERVALS, Report, Server};
use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::json;

use crate::linux::cli::probe::ProbeArgs;
use crate::linux::summary;
use crate::linux::watch::reason;

/// A segment of the fast flow with its headers, in bits, plus a quarter.
const SEGMENT_BITS: u64 = (536 + 52 + 38) * 8 * 5 / 4;
/// The pause after a system error, so that a persistent one does not use up a CPU.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Probes a partner, or serves.
pub fn probe(args: &ProbeArgs, format: Format) -> anyhow::Result<()> {
    match &args.host {
        Some(host) => ask(host, args, format),
        None if args.serve => serve(args, format),
        None => Err(BadInput::new("no partner is named")
            .hint("`ackwise probe --serve` there, then `ackwise probe HOST` here")
            .into()),
    }
}

fn ask(host: &str, args: &ProbeArgs, format: Format) -> anyhow::Result<()> {
    let interval = interval(args.rate)?;
    check_host(host)?;
    let client = Client::connect(host, args.port)?;
    // All sockets are open now.
    drop_all(None, &PrivilegedOps::default())?;
    let partner = client.partner().to_string();
    let line = summary::live_line();
    let records = client.probe(interval, |done| {
        line.set_message(format!("{} of 4 parts of the probe are done", done));
    });
    line.finish_and_clear();
    let report = Report::of(partner, &records?);
    match format {
        Format::Json => text::print_json(&report),
        Format::Text => text::print(&report.text()),
    }
}

/// Refuses a host that is neither a name nor an address, before it is resolved.
fn check_host(host: &str) -> Result<(), BadInput> {
    if host.trim().is_empty() {
        return Err(BadInput::new("HOST is empty")
            .hint("name the partner, or give its address: `ackwise probe server.example`"));
    }
    // The interface of a link-local address follows a percent sign.
    let address = host.split('%').next().unwrap_or(host);
    if !host.contains([':', '[', ']']) || address.parse::<Ipv6Addr>().is_ok() {
        return Ok(());
    }
    let bad = BadInput::new(format!("HOST {host:?} is neither a name nor an address"));
    Err(match without_port(host) {
        Some((name, Some(port))) => bad.hint(format!(
            "the port has an argument of its own: `ackwise probe {name} --port {port}`"
        )),
        Some((name, None)) => bad.hint(format!("leave the brackets out: `ackwise probe {name}`")),
        None => bad.hint("write one of them alone, without brackets; a port follows --port"),
    })
}

/// Splits a name or an address from a port that follows it as in a URL.
fn without_port(host: &str) -> Option<(&str, Option<u16>)> {
    let (name, rest) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => host.split_at(host.find(':')?),
    };
    let is_meant = !name.is_empty() && !name.contains(['[', ']']);
    match rest.strip_prefix(':') {
        _ if !is_meant => None,
        None => rest.is_empty().then_some((name, None)),
        Some(port) => Some((name, Some(port.parse().ok()?))),
    }
}

/// The time between the segments of the fast flow, in microseconds. A path too slow for the slowest
/// flow is refused.
fn interval(rate: Option<u64>) -> Result<u32, BadInput> {
    let takes = |rate: u64| (SEGMENT_BITS * 1_000_000).div_ceil(rate.max(1));
    let fits = rate.map_or(0, takes);
    let (low, high) = (*INTERVALS.start(), *INTERVALS.end());
    if fits > u64::from(high) {
        let least = takes(u64::from(high)).div_ceil(1000);
        return Err(BadInput::new(format!(
            "--rate {} bit/s is too slow for a probe",
            rate.unwrap_or(0)
        ))
        .hint(format!("name {least}kbit or more")));
    }
    Ok((fits as u32).max(low))
}

/// Printed as JSON once clients may connect.
#[derive(Serialize)]
struct Serving {
    event: &'static str,
    address: SocketAddr,
    flows: u16,
}

/// The thread that serves. It has no counters, and ends only by a panic.
struct Partner(JoinHandle<Infallible>);

impl Partner {
    /// Fails if the thread has ended.
    fn check_serves(self) -> anyhow::Result<()> {
        if !self.0.is_finished() {
            return Ok(());
        }
        match self.0.join() {
            Ok(never) => match never {},
            Err(_) => bail!(
                "the thread that serves has failed, and its message is above\n  start `ackwise \
                 probe --serve` again, and report this"
            ),
        }
    }
}

impl Daemon for Partner {
    type Stats = ();
    type Error = Infallible;

    fn stats(&self) -> Result<(), Infallible> {
        Ok(())
    }

    fn ended(&self) -> Option<Ended> {
        self.0.is_finished().then_some(Ended::Requested)
    }
}

fn serve(args: &ProbeArgs, format: Format) -> anyhow::Result<()> {
    // Block signals before any thread starts, so that every thread leaves them to this one.
    let supervisor = Supervisor::new()?;
    let (server, address) = bind(args)?;
    let user = User::choose(args.user.as_deref())?;
    drop_all(user.as_ref(), &PrivilegedOps::default())?;
    let flows = address.port().saturating_add(1);
    match format {
        Format::Json => {
            let serving = Serving {
                event: "serving",
                address,
                flows,
            };
            text::print(&format!("{}\n", serde_json::to_string(&serving)?))?;
        }
        Format::Text => text::print(&format!(
            "serving on {address}; flows come to port {flows}; Ctrl-C ends it\n"
        ))?,
    }
    let thread = std::thread::Builder::new().spawn(move || serve_all(server));
    let partner = Partner(thread.context("starting the thread that serves")?);
    supervisor.ready(&format!("serving on {address}"));
    // The thread waits for clients, and ends with the process.
    let outcome = supervisor.run(&partner, None, |(), (), _| String::new(), None)?;
    supervisor.stopping();
    partner.check_serves()?;
    let why = reason(outcome, "ackwise probe");
    match format {
        Format::Json => text::print(&format!("{}\n", json!({ "event": "ended", "why": why }))),
        Format::Text => text::print(&format!("ended ({why})\n")),
    }
}

fn serve_all(mut server: Server) -> Infallible {
    loop {
        match server.serve() {
            Ok(client) => tracing::info!("{client} has probed"),
            Err(error) => {
                tracing::warn!("a probe was not finished: {error}");
                if matches!(error, Error::System { .. }) {
                    std::thread::sleep(RETRY_DELAY);
                }
            }
        }
    }
}

/// Listens on the address that was asked for, or on all addresses of the host.
fn bind(args: &ProbeArgs) -> anyhow::Result<(Server, SocketAddr)> {
    if let Some(address) = args.listen {
        let at = SocketAddr::new(address, args.port);
        return match Server::bind(at) {
            Ok(server) => Ok((server, at)),
            Err(error) => Err(no_address(address, &error).map_or(error.into(), Into::into)),
        };
    }
    let all = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), args.port);
    match Server::bind(all) {
        Ok(server) => Ok((server, all)),
        Err(Error::System { source, .. }) if source.kind() != ErrorKind::AddrInUse => {
            // The host has no IPv6.
            let all = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), args.port);
            Ok((Server::bind(all)?, all))
        }
        Err(error) => Err(error.into()),
    }
}

/// Explains an address that cannot be listened on.
fn no_address(address: IpAddr, error: &Error) -> Option<BadInput> {
    let Error::System { source, .. } = error else {
        return None;
    };
    let is_link_local = matches!(address, IpAddr::V6(it) if it.is_unicast_link_local());
    match source.kind() {
        ErrorKind::AddrNotAvailable => Some(
            BadInput::new(format!(
                "--listen {address}: no interface of this host has this address"
            ))
            .hint("`ip address` lists those there are; without --listen it listens on all"),
        ),
        // A link-local address needs an interface.
        ErrorKind::InvalidInput if is_link_local => Some(
            BadInput::new(format!(
                "--listen {address}: a link-local address is that of an interface, which cannot be named here"
            ))
            .hint("give another address, or leave --listen out: it then listens on all"),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Args;

    use super::*;

    #[test]
    fn a_thread_that_panics_is_no_success() {
        let failed = Partner(std::thread::spawn(|| panic!("for this test")));
        while failed.ended().is_none() {
            std::thread::yield_now();
        }
        let error = failed.check_serves().unwrap_err().to_string();
        assert!(
            error.contains("the thread that serves has failed"),
            "{error}"
        );
        let (end, ended) = std::sync::mpsc::channel::<Infallible>();
        let serves = Partner(std::thread::spawn(move || match ended.recv() {
            Ok(never) => match never {},
            Err(_) => panic!("the end of this test"),
        }));
        assert!(serves.ended().is_none());
        serves.check_serves().unwrap();
        drop(end);
    }

    #[test]
    fn slow_paths_get_slow_flows() {
        let interval = |rate| interval(rate).map_err(|error| error.to_string());
        assert_eq!(interval(None), Ok(1000));
        assert_eq!(interval(Some(100_000_000)), Ok(1000));
        assert_eq!(interval(Some(1_000_000)), Ok(6260));
        assert_eq!(interval(Some(314_000)), Ok(19_937));
        assert_eq!(interval(Some(313_000)), Ok(20_000));
        for slow in [0, 1, 312_000, 312_999] {
            let error = interval(Some(slow)).unwrap_err();
            assert!(error.contains("name 313kbit or more"), "{error}");
        }
    }

    /// The message names the minimum rate that is accepted.
    #[test]
    fn the_help_names_the_least_rate() {
        assert!(interval(Some(313_000)).is_ok());
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/probe.md");
        let docs = std::fs::read_to_string(docs).unwrap();
        assert!(docs.contains("Below 313 kbit/s a path is too slow"));
        let help = ProbeArgs::augment_args(clap::Command::new("probe"));
        let help = help.get_arguments().find(|it| it.get_id() == "rate");
        let help = help.and_then(|it| it.get_help()).unwrap().to_string();
        assert!(help.contains("at least 313kbit"), "{help}");
    }

    #[test]
    fn a_host_is_a_name_or_an_address() {
        for fine in [
            "server.example",
            "server",
            "192.0.2.7",
            "2001:db8::7",
            "::1",
            "fe80::1%eth0",
            "::ffff:192.0.2.7",
        ] {
            assert!(check_host(fine).is_ok(), "{fine}");
        }
        for (bad, hint) in [
            ("", "name the partner"),
            (" ", "name the partner"),
            ("192.0.2.7:9479", "`ackwise probe 192.0.2.7 --port 9479`"),
            ("server:442", "`ackwise probe server --port 442`"),
            (
                "[2001:db8::7]:442",
                "`ackwise probe 2001:db8::7 --port 442`",
            ),
            ("[2001:db8::7]", "`ackwise probe 2001:db8::7`"),
            ("server:http", "a port follows --port"),
            ("http://server/", "a port follows --port"),
            (":9479", "a port follows --port"),
            ("[]", "a port follows --port"),
            ("1:2:3", "a port follows --port"),
            ("[", "a port follows --port"),
        ] {
            let error = check_host(bad).unwrap_err().to_string();
            assert!(error.contains(hint), "{bad}: {error}");
        }
    }
}
