//! `ackwise probe`: what a path does to ACKs, with a partner at its other end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use ackwise_cli::error::BadInput;
use ackwise_cli::{Format, text};
use ackwise_netdev::privileges::{User, Uses, drop_all};
use ackwise_probe::{Client, Error, INTERVALS, Report, Server};
use serde::Serialize;

use crate::linux::cli::probe::ProbeArgs;
use crate::linux::summary;

/// A segment of the fast flow with its headers, in bits, and a quarter more.
const SEGMENT_BITS: u64 = (536 + 52 + 38) * 8 * 5 / 4;
/// After an error of the system, so that one that stays does not take a processor.
const PAUSE: Duration = Duration::from_millis(200);

/// Probes, or serves.
pub fn probe(args: &ProbeArgs, format: Format) -> anyhow::Result<()> {
    match &args.host {
        Some(host) => ask(host, args, format),
        None if args.serve => serve(args, format),
        None => Err(BadInput::new("no partner is named")
            .mend("`ackwise probe --serve` there, then `ackwise probe HOST` here")
            .into()),
    }
}

fn ask(host: &str, args: &ProbeArgs, format: Format) -> anyhow::Result<()> {
    let interval = interval(args.rate)?;
    let client = Client::connect(host, args.port)?;
    // All sockets are open.
    drop_all(None, &Uses::default())?;
    let partner = client.partner().to_string();
    let line = summary::live_line();
    let played = client.probe(interval, |done| {
        line.set_message(format!("{} of 4 parts of the probe are done", done));
    });
    line.finish_and_clear();
    let report = Report::of(partner, &played?);
    match format {
        Format::Json => text::print_json(&report),
        Format::Text => text::print(&report.text()),
    }
}

/// The time between the segments of the fast flow, in microseconds. A slower path than the slowest
/// flow fits through is refused.
fn interval(rate: Option<u64>) -> Result<u32, BadInput> {
    let fits = rate.map_or(0, |rate| SEGMENT_BITS * 1_000_000 / rate.max(1));
    let (low, high) = (*INTERVALS.start(), *INTERVALS.end());
    if fits > u64::from(high) {
        let least = SEGMENT_BITS * 1_000_000 / u64::from(high) / 1000 + 1;
        return Err(BadInput::new(format!(
            "--rate {} bit/s is too slow for a probe",
            rate.unwrap_or(0)
        ))
        .mend(format!("name {least}kbit or more")));
    }
    Ok((fits as u32).max(low))
}

/// What is printed as JSON once clients may come.
#[derive(Serialize)]
struct Serving {
    event: &'static str,
    address: SocketAddr,
    flows: u16,
}

fn serve(args: &ProbeArgs, format: Format) -> anyhow::Result<()> {
    let (mut server, address) = bind(args)?;
    let user = User::choose(args.user.as_deref())?;
    drop_all(user.as_ref(), &Uses::default())?;
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
    loop {
        match server.serve() {
            Ok(client) => tracing::info!("{client} has probed"),
            Err(error) => {
                tracing::warn!("a probe was not finished: {error}");
                if matches!(error, Error::System { .. }) {
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }
}

/// Listens on the address that was asked for, or on all that the host has.
fn bind(args: &ProbeArgs) -> Result<(Server, SocketAddr), Error> {
    if let Some(address) = args.listen {
        let address = SocketAddr::new(address, args.port);
        return Ok((Server::bind(address)?, address));
    }
    let all = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), args.port);
    match Server::bind(all) {
        Ok(server) => Ok((server, all)),
        Err(Error::System { source, .. }) if source.kind() != std::io::ErrorKind::AddrInUse => {
            // A host without IPv6.
            let all = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), args.port);
            Ok((Server::bind(all)?, all))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_paths_get_slow_flows() {
        let interval = |rate| interval(rate).map_err(|error| error.to_string());
        assert_eq!(interval(None), Ok(1000));
        assert_eq!(interval(Some(100_000_000)), Ok(1000));
        assert_eq!(interval(Some(1_000_000)), Ok(6260));
        assert_eq!(interval(Some(314_000)), Ok(19_936));
        for slow in [0, 1, 312_000] {
            assert!(interval(Some(slow)).is_err());
        }
    }
}
