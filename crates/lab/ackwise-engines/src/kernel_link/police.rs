//! The kernel's policer: a token bucket of `tc` at the ingress of a direction.
//!
//! It is the same bucket as in [`crate::police`], which has other modes as well. The filters are of
//! type u32, which matches at fixed offsets: a pure ACK is TCP with ACK set and SYN, FIN and RST
//! clear, in an IP packet that is as long as its headers.

use ackwise_config::queues::{Length, Police, PoliceHow};
use ackwise_scenario::Direction;
use serde_json::Value;

use super::tc;
use crate::command;
use crate::error::LabError;

/// Priority of the filter that runs after those of a policer and matches whatever passes it.
pub(super) const REMAINDER_PRIORITY: u32 = 9;
/// Possible lengths of TCP's header, in 32-bit words.
const HEADERS: std::ops::RangeInclusive<u32> = 5..=15;
/// Value and mask of the flags of a pure ACK.
const ACK: &str = "0x10 0x17";

/// Whether the kernel can police as a direction asks for. A link without a rate has no queue, so
/// ACKs are counted at ingress, including those that are dropped.
#[must_use]
pub(crate) fn can(direction: &Direction) -> bool {
    direction.police.as_ref().is_none_or(|police| {
        matches!(police.how, PoliceHow::Bucket(_)) && direction.rate_bps.is_some()
    })
}

/// Offsets that the filters need for a version of IP, in bytes from the IP header.
struct Places {
    protocol: &'static str,
    priority: u32,
    /// Match for TCP as the next header, and its offset.
    is_tcp: &'static str,
    tcp: u32,
    /// The length field, and the part of the IP header that it includes.
    length: u32,
    counted: u32,
}

const PLACES: [Places; 2] = [
    Places {
        protocol: "ip",
        priority: 1,
        is_tcp: "match u8 0x45 0xff at 0 match u8 6 0xff at 9",
        tcp: 20,
        length: 2,
        counted: 20,
    },
    Places {
        protocol: "ipv6",
        priority: 2,
        is_tcp: "match u8 6 0xff at 6",
        tcp: 40,
        length: 4,
        counted: 0,
    },
];

/// Installs the policer `index` of this namespace for packets that arrive on `device`, limited to
/// the flows with these ports if there are any.
pub(super) fn install(
    device: &str,
    index: u32,
    police: &Police,
    ports: &[u16],
) -> Result<(), LabError> {
    if !matches!(police.how, PoliceHow::Bucket(_)) {
        return Err(LabError::Scenario(
            "the kernel's policer is a token bucket; for `drop` use the emulator".to_owned(),
        ));
    }
    commands(device, index, police, ports)
        .iter()
        .try_for_each(|arguments| tc(arguments))
}

fn commands(device: &str, index: u32, police: &Police, ports: &[u16]) -> Vec<String> {
    let PoliceHow::Bucket(bucket) = police.how else {
        return Vec::new();
    };
    // At ingress a packet's length excludes the link-layer header.
    let (overhead, least) = match bucket.length {
        Length::Ip => (0, 0),
        Length::EthernetPayload => (0, 46),
        Length::EthernetFrame => (18, 64),
    };
    let mut commands = vec![format!(
        "actions add action police rate {}bit burst {}b overhead {overhead} mpu {least} \
         mtu 65535 conform-exceed drop/continue index {index}",
        bucket.rate_bps, bucket.burst,
    )];
    let mut filter = |priority: u32, protocol: &str, what: &str| {
        commands.push(format!(
            "filter add dev {device} ingress protocol {protocol} prio {priority} {what} \
             action police index {index}"
        ));
    };
    if !police.what.pure_acks && ports.is_empty() {
        filter(1, "all", "matchall");
        return commands;
    }
    for places in &PLACES {
        for size in sizes(places, police.what.pure_acks) {
            for port in sides(places, ports) {
                let what = format!("u32 {}{size}{port}", places.is_tcp);
                filter(places.priority, places.protocol, &what);
            }
        }
    }
    commands
}

/// Matches for a pure ACK, one for each TCP header length; or a single empty match for all packets.
fn sizes(places: &Places, pure_acks: bool) -> Vec<String> {
    if !pure_acks {
        return vec![String::new()];
    }
    let of = |words: u32| {
        format!(
            " match u16 {} 0xffff at {} match u8 {} 0xf0 at {} match u8 {ACK} at {}",
            places.counted + 4 * words,
            places.length,
            words << 4,
            places.tcp + 12,
            places.tcp + 13,
        )
    };
    HEADERS.map(of).collect()
}

/// Matches for either end of these flows; or a single empty match for all flows.
fn sides(places: &Places, ports: &[u16]) -> Vec<String> {
    if ports.is_empty() {
        return vec![String::new()];
    }
    let at = |port: &u16| {
        [0, 2].map(|side| format!(" match u16 {port} 0xffff at {}", places.tcp + side))
    };
    ports.iter().flat_map(at).collect()
}

/// Packets that the policer with this index has dropped.
pub(super) fn dropped(index: u32) -> Result<u64, LabError> {
    let text = command::run("tc", &["-s", "-j", "actions", "show", "action", "police"])?;
    let json: Value = serde_json::from_str(&text).map_err(|error| LabError::Os {
        what: "cannot parse tc's output on policers".to_owned(),
        source: error.into(),
    })?;
    find(&json, index).ok_or_else(|| LabError::Os {
        what: "a policer is missing in tc's output".to_owned(),
        source: std::io::ErrorKind::NotFound.into(),
    })
}

fn find(json: &Value, index: u32) -> Option<u64> {
    let groups = json.as_array()?.iter();
    let actions = groups
        .filter_map(|group| group["actions"].as_array())
        .flatten();
    let mut own = actions.filter(|action| action["index"].as_u64() == Some(index.into()));
    own.next()?["stats"]["drops"].as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ackwise_config::queues::{Bucket, What};

    fn bucket(pure_acks: bool) -> Police {
        Police {
            how: PoliceHow::Bucket(Bucket {
                rate_bps: 430_000,
                burst: 5000,
                length: Length::EthernetFrame,
            }),
            what: What {
                pure_acks,
                flows: Vec::new(),
            },
        }
    }

    #[test]
    fn a_pure_ack_is_told_by_its_lengths() {
        let all = commands("end1", 2, &bucket(true), &[]);
        assert_eq!(all.len(), 1 + 2 * 11);
        assert_eq!(
            all[0],
            "actions add action police rate 430000bit burst 5000b overhead 18 mpu 64 mtu 65535 \
             conform-exceed drop/continue index 2"
        );
        // With timestamps, the TCP header has 32 bytes.
        assert_eq!(
            all[1 + 3],
            "filter add dev end1 ingress protocol ip prio 1 u32 match u8 0x45 0xff at 0 \
             match u8 6 0xff at 9 match u16 52 0xffff at 2 match u8 128 0xf0 at 32 \
             match u8 0x10 0x17 at 33 action police index 2"
        );
        assert_eq!(
            all[12 + 3],
            "filter add dev end1 ingress protocol ipv6 prio 2 u32 match u8 6 0xff at 6 \
             match u16 32 0xffff at 4 match u8 128 0xf0 at 52 match u8 0x10 0x17 at 53 \
             action police index 2"
        );
    }

    #[test]
    fn a_flow_is_told_by_its_port_at_either_end() {
        let all = commands("end0", 1, &bucket(false), &[5001]);
        let ports: Vec<_> = all[1..]
            .iter()
            .map(|it| it.contains("match u16 5001"))
            .collect();
        assert_eq!(ports, [true; 4]);
        assert!(
            all[1].contains("at 20") && all[2].contains("at 22"),
            "{all:?}"
        );
        assert!(
            all[3].contains("at 40") && all[4].contains("at 42"),
            "{all:?}"
        );
        assert_eq!(
            commands("end0", 1, &bucket(true), &[5001, 5002]).len(),
            1 + 2 * 11 * 4
        );
        assert!(commands("end0", 1, &bucket(false), &[])[1].contains("matchall"));
    }

    #[test]
    fn what_chooses_without_a_bucket_is_not_the_kernel_s() {
        let mut direction = Direction {
            rate_bps: Some(1),
            police: Some(bucket(true)),
            ..Direction::default()
        };
        assert!(can(&direction));
        direction.rate_bps = None;
        assert!(!can(&direction));
        direction.rate_bps = Some(1);
        direction.police = Some(Police {
            how: PoliceHow::Even(0.5),
            ..bucket(true)
        });
        assert!(!can(&direction));
        assert!(can(&Direction::default()));
    }

    #[test]
    fn drops_are_read_by_index() {
        let text = r#"[{"total acts":2},{"actions":[
            {"order":0,"kind":"police","index":1,"stats":{"packets":9,"drops":4}},
            {"order":1,"kind":"police","index":2,"stats":{"packets":8,"drops":7}}]}]"#;
        let json: Value = serde_json::from_str(text).unwrap();
        assert_eq!((find(&json, 2), find(&json, 3)), (Some(7), None));
    }
}
