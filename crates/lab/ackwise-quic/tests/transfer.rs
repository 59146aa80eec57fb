//! Two ends and a line between them.

use std::collections::BTreeMap;

use ackwise_quic::{AckFrequency, Client, Config, Congestion, Datagram, Server};

const MS: u64 = 1_000_000;

fn config() -> Config {
    Config {
        congestion: Congestion::Cubic,
        datagram: 1472,
        window: 1 << 20,
        ack_frequency: None,
        seed: 1,
    }
}

/// The results of a transfer.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    delivered: u64,
    finished: bool,
    /// Datagrams that reached the server and the client.
    datagrams: [u64; 2],
    /// Their bytes.
    bytes: [u64; 2],
    lost: u64,
    ended: u64,
}

/// Sends this many bytes over 10 Mbit/s and 20 ms each way, and loses every `lose`th datagram.
fn transfer(config: &Config, bytes: u64, lose: Option<u64>) -> Outcome {
    let (mut client, mut server) = (Client::new(config), Server::new(config));
    let mut in_flight: BTreeMap<(u64, u64), (bool, Datagram)> = BTreeMap::new();
    let (mut now, mut number, mut free) = (0, 0, [0, 0]);
    let mut outcome = Outcome {
        delivered: 0,
        finished: false,
        datagrams: [0, 0],
        bytes: [0, 0],
        lost: 0,
        ended: 0,
    };
    client.supply(Some(bytes), true, 0);
    while now < 120_000 * MS && !client.stats().finished {
        for to_server in [true, false] {
            while let Some(datagram) = match to_server {
                true => client.poll_transmit(now),
                false => server.poll_transmit(now),
            } {
                number += 1;
                let direction = usize::from(!to_server);
                let len = datagram.bytes.len() as u64;
                free[direction] = now.max(free[direction]) + (len + 28) * 800;
                outcome.datagrams[direction] += 1;
                outcome.bytes[direction] += len;
                if lose.is_none_or(|each| number % each != 0) {
                    in_flight.insert((free[direction] + 20 * MS, number), (to_server, datagram));
                }
            }
        }
        let timers = [client.next_timer(), server.next_timer()];
        let arrival = in_flight.keys().next().map(|(at, _)| *at);
        let next = timers.into_iter().chain([arrival]).flatten().min();
        now = next.expect("something is to come").max(now);
        if let Some(entry) = in_flight.first_entry().filter(|entry| entry.key().0 <= now) {
            let (to_server, datagram) = entry.remove();
            match to_server {
                true => server.on_datagram(&datagram, now),
                false => client.on_datagram(&datagram, now),
            }
        }
        if timers[0].is_some_and(|at| at <= now) {
            client.on_timer(now);
        }
        if timers[1].is_some_and(|at| at <= now) {
            server.on_timer(now);
        }
    }
    outcome.delivered = server.delivered();
    outcome.finished = client.stats().finished;
    outcome.lost = client.stats().lost_packets;
    outcome.ended = now;
    outcome
}

#[test]
fn every_byte_arrives_and_every_second_packet_is_acknowledged() {
    let seen = transfer(&config(), 5_000_000, None);
    assert!(seen.finished, "{seen:?}");
    assert_eq!((seen.delivered, seen.lost), (5_000_000, 0));
    // 5 MB at 10 Mbit/s less headers and the handshake.
    let fastest = 5_000_000 * 800;
    assert!(
        seen.ended > fastest && seen.ended < fastest * 12 / 10,
        "{seen:?}"
    );
    let share = seen.datagrams[0] as f64 / seen.datagrams[1] as f64;
    assert!((1.9..2.1).contains(&share), "{share}");
}

#[test]
fn the_extension_asks_for_fewer_acks() {
    let few = Config {
        ack_frequency: Some(AckFrequency {
            packets: 9,
            max_ack_delay: None,
        }),
        ..config()
    };
    let seen = transfer(&few, 5_000_000, None);
    assert_eq!((seen.finished, seen.delivered), (true, 5_000_000));
    let share = seen.datagrams[0] as f64 / seen.datagrams[1] as f64;
    assert!((8.0..10.5).contains(&share), "{share}");
}

#[test]
fn what_is_lost_is_sent_again() {
    for congestion in [Congestion::Cubic, Congestion::NewReno, Congestion::Bbr] {
        let config = Config {
            congestion,
            ..config()
        };
        let seen = transfer(&config, 1_000_000, Some(50));
        assert_eq!(
            (seen.finished, seen.delivered),
            (true, 1_000_000),
            "{seen:?}"
        );
        assert!(seen.lost > 5, "{seen:?}");
    }
}

#[test]
fn two_runs_are_the_same() {
    let run = || transfer(&config(), 300_000, Some(37));
    assert_eq!(run(), run());
}

#[test]
fn quic_needs_its_least_datagram() {
    let short = Config {
        datagram: 1199,
        ..config()
    };
    let message = short.check().unwrap_err().to_string();
    assert_eq!(
        message,
        "QUIC needs datagrams of 1200 bytes (RFC 9000 §14), not 1199"
    );
    assert_eq!(config().check(), Ok(()));
}
