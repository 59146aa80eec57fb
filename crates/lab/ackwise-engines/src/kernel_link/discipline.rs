//! A scenario's queue as the kernel's queue disciplines.

use std::time::Duration;

use ackwise_config::queues::{AckFilter, CakeTin, FqCodel, Queue, QueueLimit, Red, RedPreset};
use ackwise_scenario::Direction;

/// The queue of a link with a rate if the scenario sets none: Linux's default for a device
/// (`txqueuelen`).
pub(crate) const DEFAULT_QUEUE_PACKETS: usize = 1000;
/// How late a shaper may be without losing rate. Longer delays are not made up for: a link sends
/// one packet after another.
const CREDIT_NS: u64 = 5_000;
/// Mean packet size that RED assumes if the scenario sets none, bytes.
const MEAN_PACKET: u32 = 500;
/// Floyd 1997: thresholds in packets, and the probability at the upper one.
const FLOYD: ([u32; 2], f64) = ([5, 15], 0.1);

/// The first feature of a direction that the kernel lacks or implements differently: its key, and
/// the reason with a way to fix it.
pub(crate) fn refused(direction: &Direction) -> Option<(&'static str, String)> {
    let more = direction
        .own_queue_keys()
        .into_iter()
        .find(|key| !matches!(*key, "queue.discipline" | "queue.ack_filter"));
    if let Some(key) = more {
        return Some(not_there(key, "the kernel"));
    }
    // Without `..`, so that a new field that `commands` does not know fails to compile here.
    let Queue {
        limit,
        counts_sending: _,
        red,
        fq_codel,
        cake,
        ack_filter,
        acks_first: _,
    } = direction.queue.as_ref()?;
    match ack_filter {
        Some(AckFilter::Cake { .. }) if cake.is_some() => {}
        Some(AckFilter::Cake { .. }) => {
            return Some((
                "queue.ack_filter",
                "the kernel has this `queue.ack_filter` in cake only; add discipline = \"cake\""
                    .to_owned(),
            ));
        }
        Some(_) => return Some(not_there("queue.ack_filter", "the kernel")),
        None => {}
    }
    if cake.is_some() && matches!(limit, QueueLimit::Packets(_)) {
        let why = "cake's `queue.limit` must be in bytes (of memory); write e.g. \"4 MB\"";
        return Some(("queue.limit", why.to_owned()));
    }
    if fq_codel.is_some_and(|it| it.ack_share.is_some()) {
        return Some(not_there("queue.ack_share", "the kernel's fq_codel"));
    }
    red.as_ref().and_then(red_refused)
}

fn not_there(key: &'static str, whose: &str) -> (&'static str, String) {
    let why = format!("{whose} has no `{key}`; leave it out");
    (key, why)
}

fn red_refused(red: &Red) -> Option<(&'static str, String)> {
    let key = [
        (red.preset != RedPreset::Floyd, "queue.preset"),
        (red.weight.is_some(), "queue.weight"),
        (red.gentle == Some(true), "queue.gentle"),
        (red.wait == Some(true), "queue.wait"),
        (
            red.mark_limit.is_some_and(|limit| limit < 1.0),
            "queue.mark_limit",
        ),
    ]
    .into_iter()
    .find_map(|(there, key)| there.then_some(key))?;
    Some(not_there(key, "the kernel's RED"))
}

/// The arguments of `tc` that make a device send at a rate from this queue.
///
/// HTB has (almost) no burst: a packet leaves when the transmission time of those before it is
/// over, and the wire adds its own transmission time later. cake has a virtual clock of the same
/// kind.
pub(super) fn commands(device: &str, rate_bps: u64, queue: Option<&Queue>) -> Vec<String> {
    if let Some((queue, cake)) = queue.and_then(|queue| Some((queue, queue.cake?))) {
        let filter = match queue.ack_filter {
            Some(AckFilter::Cake { aggressive: true }) => "ack-filter-aggressive",
            Some(_) => "ack-filter",
            None => "no-ack-filter",
        };
        let memory = match queue.limit {
            QueueLimit::Bytes(bytes) => bytes,
            QueueLimit::Packets(packets) => u64::from(packets) * u64::from(MEAN_PACKET),
        };
        let rtt = cake.rtt.map(|rtt| format!(" rtt {}us", rtt.as_micros()));
        let mut commands = vec![format!(
            "qdisc add dev {device} root handle 1: cake bandwidth {rate_bps}bit {filter} memlimit {memory}b{}",
            rtt.unwrap_or_default()
        )];
        if let Some(tin) = cake.ack_tin {
            commands[0].push_str(" diffserv4");
            commands.extend(acks_to(device, tin));
        }
        return commands;
    }
    let burst = (rate_bps * CREDIT_NS / 8_000_000_000).max(1);
    vec![
        format!("qdisc add dev {device} root handle 1: htb default 1"),
        format!(
            "class add dev {device} parent 1: classid 1:1 htb rate {rate_bps}bit burst {burst}b \
             cburst {burst}b quantum 60000"
        ),
        format!(
            "qdisc add dev {device} parent 1:1 handle 2: {}",
            waiting(rate_bps, queue)
        ),
    ]
}

/// The commands that classify TCP packets of less than 128 bytes, as ACKs are, into a tin. Cake
/// interprets a priority with its own handle as the number of a tin, in the order bulk, best
/// effort, video, voice.
fn acks_to(device: &str, tin: CakeTin) -> [String; 3] {
    let minor = match tin {
        CakeTin::Bulk => 1,
        CakeTin::Video => 3,
        CakeTin::Voice => 4,
    };
    // IPv4 has the total length at offset 2, IPv6 the payload length at offset 4.
    let filter = |protocol: &str, short: &str| {
        format!(
            "filter add dev {device} egress protocol {protocol} u32 {short} \
             action skbedit priority 1:{minor}"
        )
    };
    [
        format!("qdisc add dev {device} clsact"),
        filter("ip", "match ip protocol 6 0xff match u16 0 0xff80 at 2"),
        filter("ipv6", "match ip6 protocol 6 0xff match u16 0 0xffc0 at 4"),
    ]
}

fn waiting(rate_bps: u64, queue: Option<&Queue>) -> String {
    let Some(queue) = queue else {
        return format!("pfifo limit {DEFAULT_QUEUE_PACKETS}");
    };
    if let Some(red) = &queue.red {
        return self::red(rate_bps, queue.limit, red);
    }
    if let Some(keys) = &queue.fq_codel {
        return fq_codel(queue.limit, keys);
    }
    match queue.limit {
        QueueLimit::Packets(packets) => format!("pfifo limit {packets}"),
        QueueLimit::Bytes(bytes) => format!("bfifo limit {bytes}b"),
    }
}

fn fq_codel(limit: QueueLimit, keys: &FqCodel) -> String {
    let mut text = match limit {
        QueueLimit::Packets(packets) => format!("fq_codel limit {packets}"),
        QueueLimit::Bytes(bytes) => format!("fq_codel memory_limit {bytes}b"),
    };
    let time = |time: Duration| format!("{}us", time.as_micros().max(1));
    let given = [
        ("memory_limit", keys.memory_limit.map(|it| format!("{it}b"))),
        ("flows", keys.flows.map(|it| it.to_string())),
        ("quantum", keys.quantum.map(|it| it.to_string())),
        ("target", keys.target.map(time)),
        ("interval", keys.interval.map(time)),
        ("ce_threshold", keys.ce_threshold.map(time)),
    ];
    for (word, value) in given {
        if let Some(value) = value {
            text.push_str(&format!(" {word} {value}"));
        }
    }
    match keys.ecn {
        Some(true) => text.push_str(" ecn"),
        Some(false) => text.push_str(" noecn"),
        None => {}
    }
    text
}

/// The arguments of RED. The kernel's RED counts in bytes; `tc` derives its weight from the burst
/// that Floyd recommends, (2 min + max) / 3.
fn red(rate_bps: u64, limit: QueueLimit, red: &Red) -> String {
    let mean = red.mean_packet.unwrap_or(MEAN_PACKET);
    let bytes = |limit| match limit {
        QueueLimit::Packets(packets) => u64::from(packets) * u64::from(mean),
        QueueLimit::Bytes(bytes) => bytes,
    };
    let [min, max] = red
        .thresholds
        .unwrap_or_else(|| FLOYD.0.map(QueueLimit::Packets))
        .map(bytes);
    let burst = ((2 * min + max) / (3 * u64::from(mean))).max(1);
    format!(
        "red limit {}b min {min}b max {max}b avpkt {mean}b burst {burst} probability {} \
         bandwidth {rate_bps}bit{}",
        bytes(limit),
        red.max_probability.unwrap_or(FLOYD.1),
        if red.ecn { " ecn" } else { "" },
    )
}

#[cfg(test)]
mod tests {
    use ackwise_config::queues::Cake;

    use super::*;

    fn queue(limit: QueueLimit) -> Queue {
        Queue::drop_tail(limit)
    }

    #[test]
    fn a_drop_tail_queue_waits_behind_a_shaper_without_burst() {
        let queue = queue(QueueLimit::Packets(100));
        assert_eq!(
            commands("q", 50_000_000, Some(&queue)),
            [
                "qdisc add dev q root handle 1: htb default 1",
                "class add dev q parent 1: classid 1:1 htb rate 50000000bit burst 31b cburst 31b \
                 quantum 60000",
                "qdisc add dev q parent 1:1 handle 2: pfifo limit 100",
            ]
        );
        // The credit of 5 µs is less than a byte.
        assert!(commands("q", 200_000, None)[1].contains("burst 1b"));
        assert!(commands("q", 200_000, None)[2].ends_with("pfifo limit 1000"));
    }

    #[test]
    fn fq_codel_has_what_was_given() {
        let plain = Queue {
            fq_codel: Some(FqCodel::default()),
            ..queue(QueueLimit::Packets(500))
        };
        assert!(commands("q", 1, Some(&plain))[2].ends_with("handle 2: fq_codel limit 500"));
        let ms = |ms| Some(Duration::from_millis(ms));
        let full = Queue {
            fq_codel: Some(FqCodel {
                flows: Some(64),
                quantum: Some(300),
                target: ms(13),
                interval: ms(200),
                ce_threshold: ms(1),
                ecn: Some(false),
                ..FqCodel::default()
            }),
            ..queue(QueueLimit::Bytes(65_536))
        };
        assert!(commands("q", 1, Some(&full))[2].ends_with(
            "fq_codel memory_limit 65536b flows 64 quantum 300 target 13000us interval 200000us \
             ce_threshold 1000us noecn"
        ));
    }

    #[test]
    fn cake_shapes_by_itself() {
        for (ack_filter, word) in [
            (None, "no-ack-filter"),
            (Some(AckFilter::Cake { aggressive: false }), "ack-filter"),
            (
                Some(AckFilter::Cake { aggressive: true }),
                "ack-filter-aggressive",
            ),
        ] {
            let queue = Queue {
                cake: Some(Cake::default()),
                ack_filter,
                ..queue(QueueLimit::Bytes(131_072))
            };
            assert_eq!(
                commands("q", 200_000, Some(&queue)),
                [format!(
                    "qdisc add dev q root handle 1: cake bandwidth 200000bit {word} memlimit 131072b"
                )]
            );
        }
    }

    #[test]
    fn cake_is_told_the_round_trip() {
        let queue = Queue {
            cake: Some(Cake {
                rtt: Some(Duration::from_millis(600)),
                ..Cake::default()
            }),
            ..queue(QueueLimit::Bytes(4_000_000))
        };
        assert_eq!(
            commands("q", 200_000, Some(&queue)),
            [
                "qdisc add dev q root handle 1: cake bandwidth 200000bit no-ack-filter memlimit 4000000b \
              rtt 600000us"
            ]
        );
    }

    #[test]
    fn acks_have_a_tin_of_their_own() {
        let queue = Queue {
            cake: Some(Cake {
                ack_tin: Some(CakeTin::Video),
                ..Cake::default()
            }),
            ..queue(QueueLimit::Bytes(4_000_000))
        };
        let made = commands("q", 200_000, Some(&queue));
        assert!(made[0].ends_with("memlimit 4000000b diffserv4"));
        assert_eq!(
            made[1..],
            [
                "qdisc add dev q clsact",
                "filter add dev q egress protocol ip u32 match ip protocol 6 0xff \
                 match u16 0 0xff80 at 2 action skbedit priority 1:3",
                "filter add dev q egress protocol ipv6 u32 match ip6 protocol 6 0xff \
                 match u16 0 0xffc0 at 4 action skbedit priority 1:3",
            ]
        );
    }

    #[test]
    fn what_the_kernel_has_not_is_refused() {
        let with = |queue| Direction {
            rate_bps: Some(1),
            queue: Some(queue),
            ..Direction::default()
        };
        let cake = Queue {
            cake: Some(Cake::default()),
            ..queue(QueueLimit::Packets(9))
        };
        let filter = Queue {
            ack_filter: Some(AckFilter::Cake { aggressive: false }),
            ..queue(QueueLimit::Bytes(9000))
        };
        let first = Queue {
            acks_first: Some(1),
            ..queue(QueueLimit::Packets(9))
        };
        let share = Queue {
            ack_filter: None,
            ..Queue::for_uplink()
        };
        for (queue, why) in [
            (share, "queue.ack_share"),
            (cake, "in bytes"),
            (filter, "in cake only"),
            (first, "queue.acks_first"),
        ] {
            assert!(refused(&with(queue)).unwrap().1.contains(why));
        }
        assert_eq!(refused(&with(queue(QueueLimit::Packets(9)))), None);
        assert_eq!(refused(&Direction::default()), None);
    }
}
