//! Converts arguments to the datapath's options.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use ackwise_cli::error::BadInput;
use ackwise_cli::policy;
use ackwise_datapath::{Matches, Options, Position, Prefix};

use crate::linux::cli::{self, AttachArgs, ThinArgs};

/// The options of an attachment from the arguments of `ackwise attach`.
pub fn options(args: &AttachArgs) -> Result<Options, BadInput> {
    let mut options = thin_options(&args.thin)?;
    if args.cwnd_hint && options.position != Position::Sender {
        return Err(BadInput::new(
            "--cwnd-hint: only the sender of the data knows its congestion window",
        )
        .hint("add --position sender, on the host that sends the data"));
    }
    options.cwnd_hint = args.cwnd_hint;
    if args.ack_request && options.position != Position::Sender {
        return Err(BadInput::new(
            "--ack-request: only the sender of the data knows which packet is the last of a window",
        )
        .hint("add --position sender, on the host that sends the data"));
    }
    options.ack_request = args.ack_request;
    let every_n = options.policy.policy().name() == "every-n";
    if args.obey_ack_rate && (options.position != Position::Receiver || !every_n) {
        return Err(BadInput::new(
            "--obey-ack-rate: works only on the host that receives the data, with the policy every-n",
        )
        .hint("add --policy every-n --set n=1, and leave --position out"));
    }
    options.obey_ack_rate = args.obey_ack_rate;
    options.dry_run = args.dry_run;
    Ok(options)
}

/// The options that say what is thinned, where and by which policy.
pub fn thin_options(args: &ThinArgs) -> Result<Options, BadInput> {
    let policy = policy::configure(&args.policy, &args.set)?;
    let mut options = Options::new(&args.interface, policy);
    options.position = match args.position {
        cli::Position::Receiver => Position::Receiver,
        cli::Position::Router => Position::Router,
        cli::Position::Sender => Position::Sender,
    };
    options.attach = args.attach_mode.into();
    if let Some(hold) = args.hold_ms {
        options.hold_max = hold;
    }
    options.max_flows = args.max_flows;
    for text in &args.matches {
        add_match(&mut options.matches, text)?;
    }
    Ok(options)
}

fn add_match(matches: &mut Matches, text: &str) -> Result<(), BadInput> {
    let bad = |why: String| {
        BadInput::new(format!("--match {text}: {why}")).hint(
            "write remote=ADDRESS[/LEN], local=ADDRESS[/LEN], remote-port=PORT[-PORT] or \
             local-port=PORT[-PORT]",
        )
    };
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| bad("not KEY=VALUE".into()))?;
    let twice = |seen: bool| {
        if seen {
            Err(bad(format!("{key} is given twice")))
        } else {
            Ok(())
        }
    };
    match key {
        "local" | "remote" => {
            let slot = if key == "local" {
                &mut matches.local
            } else {
                &mut matches.remote
            };
            twice(slot.is_some())?;
            *slot = Some(prefix(value).map_err(bad)?);
        }
        "local-port" | "remote-port" => {
            let local = key == "local-port";
            let slot = if local {
                &mut matches.local_ports
            } else {
                &mut matches.remote_ports
            };
            twice(slot.is_some())?;
            *slot = Some(ports(value).map_err(bad)?);
        }
        _ => return Err(bad(format!("{key:?} cannot be matched"))),
    }
    Ok(())
}

fn prefix(text: &str) -> Result<Prefix, String> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let address: IpAddr = address
        .parse()
        .map_err(|_| format!("{address:?} is not an IPv4 or IPv6 address"))?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let length = match length {
        None => longest,
        Some(length) => length
            .parse()
            .ok()
            .filter(|l| *l <= longest)
            .ok_or_else(|| format!("{length:?} is not a prefix length from 0 to {longest}"))?,
    };
    Ok(Prefix { address, length })
}

fn ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let one = |t: &str| {
        t.parse::<u16>()
            .ok()
            .filter(|p| *p > 0)
            .ok_or_else(|| format!("{t:?} is not a port from 1 to 65535"))
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (one(first)?, one(last)?);
    if first > last {
        return Err(format!("{first} is above {last}"));
    }
    Ok(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> Result<Matches, BadInput> {
        let mut m = Matches::default();
        texts
            .iter()
            .try_for_each(|t| add_match(&mut m, t))
            .map(|()| m)
    }

    #[test]
    fn matches_are_read() {
        let m = read(&[
            "remote=192.0.2.0/24",
            "remote-port=443",
            "local-port=1024-2047",
        ])
        .unwrap();
        assert_eq!(m.remote.unwrap().length, 24);
        assert_eq!(m.remote_ports, Some(443..=443));
        assert_eq!(m.local_ports, Some(1024..=2047));
        let m = read(&["local=2001:db8::1"]).unwrap();
        assert_eq!(m.local.unwrap().length, 128);
    }

    #[test]
    fn bad_matches_are_told_so() {
        for (bad, says) in [
            ("443", "not KEY=VALUE"),
            ("port=443", "cannot be matched"),
            ("remote-port=0", "not a port"),
            ("remote-port=70000", "not a port"),
            ("remote-port=90-80", "above"),
            ("remote=example.org", "not an IPv4 or IPv6"),
            ("remote=192.0.2.0/33", "prefix length"),
            ("local=::/x", "prefix length"),
        ] {
            let e = read(&[bad]).unwrap_err().to_string();
            assert!(e.contains(says), "{bad}: {e}");
        }
        assert!(
            read(&["remote-port=1", "remote-port=2"])
                .unwrap_err()
                .to_string()
                .contains("twice")
        );
    }
}
