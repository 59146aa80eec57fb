//! ACK congestion control (RFC 5690), simulated: the sender's rules by hand, the detection of lost
//! ACKs, and a receiver that obeys under the contract.

mod tcp_support;

use std::sync::Arc;

use ackwise_config::queues::QueueLimit;
use ackwise_policy::{Config, FlowConfig};
use ackwise_rng::Rng;
use ackwise_scenario::record::Run;
use ackwise_scenario::{AckCongestionControl, Scenario, SocketOptions, TcpModel};
use ackwise_sim::packet::{
    AckOption, AckRateOption, Block, Direction, Flags, FlowId, Packet, Sack,
};
use ackwise_sim::tcp::{Receiver, Sender, StackPolicy, configure};
use ackwise_sim::{Nanos, RunOptions, run};
use tcp_support::{Fate, MS, Net, Pipe, SECOND};

/// Payload of a segment that has room for the option.
const MSS: u64 = 1444;

fn configured(window: u32, most: u8) -> (Sender, Receiver) {
    let model = TcpModel {
        initial_window: Some(20),
        window_limit: Some(QueueLimit::Packets(window)),
        defer_chunks: Some(false),
        ..TcpModel::default()
    };
    let socket = SocketOptions::default();
    let (mut s, mut r) = configure("reno", &model, &socket, 1496).expect("a model");
    assert_eq!(u64::from(s.mss), MSS);
    s.ack_congestion_control = Some(AckCongestionControl { most });
    r.knows_ack_rate = true;
    r.policy = Some(StackPolicy {
        flow: FlowConfig::new(&"every-n:n=2,warm=0".parse::<Config>().expect("a policy")),
        shift: 7,
        obey_ack_rate: true,
    });
    (
        Sender::new(FlowId(0), Arc::new(s)),
        Receiver::new(FlowId(0), Arc::new(r)),
    )
}

fn ack(segments: u64) -> Packet {
    Packet {
        flow: FlowId(0),
        direction: Direction::Ack,
        ack_rate: AckRateOption::NONE,
        flags: Flags::ACK | Flags::TIMESTAMPS,
        wire_len: 52,
        payload: 0,
        seq: 0,
        ack: segments * MSS,
        window: 1 << 20,
        tsval: 0,
        tsecr: 0,
        sack: Sack::default(),
    }
}

/// A sender whose window has 20 segments, all of them outstanding.
fn open(permitted: bool) -> Sender {
    let (mut sender, _) = configured(20, 255);
    sender.supply(u64::MAX);
    sender.open(0);
    let syn = sender.poll_transmit(0).expect("a SYN");
    assert_eq!(syn.ack_option(), Some(AckOption::Permitted));
    let mut syn_ack = ack(0);
    syn_ack.flags |= Flags::SYN;
    if permitted {
        syn_ack.permit_ratio();
    }
    sender.on_packet(&syn_ack, 100 * MS);
    assert_eq!(sent_ratios(&mut sender, 100 * MS), [None; 20]);
    sender
}

/// The ACK Ratios that the segments leaving now carry.
fn sent_ratios(sender: &mut Sender, now: Nanos) -> Vec<Option<u8>> {
    std::iter::from_fn(|| sender.poll_transmit(now))
        .map(|p| match p.ack_option() {
            None => None,
            Some(AckOption::Ratio(segments)) => Some(segments),
            Some(other) => panic!("{other:?} on data"),
        })
        .collect()
}

/// Acknowledges up to each of these numbers; checks that every segment sent then carries `ratio`.
fn expect(sender: &mut Sender, acks: &[u64], ratio: Option<u8>) {
    for number in acks {
        let una = sender.acknowledged() / MSS;
        sender.on_packet(&ack(*number), 200 * MS);
        let leaves = usize::try_from(number.saturating_sub(una)).expect("a few");
        assert_eq!(
            sent_ratios(sender, 200 * MS),
            vec![ratio; leaves],
            "after ACK {number}"
        );
    }
}

/// RFC 5690 §4.4 and §4.5 by hand, with W = 20 segments. R falls after W / (R² - R) windows of W
/// segments: 400/12 = 33.3 segments with R = 4, and 400/6 = 66.7 with R = 3.
#[test]
fn the_ratio_follows_a_trace_by_hand() {
    let mut sender = open(true);
    // R = 2. The ACK of 8 is lost, which three ACKs after that of 10 show.
    expect(&mut sender, &[2, 4, 6, 10, 12, 14], None);
    assert_eq!((sender.ack_ratio(), sender.lost_acks()), (Some(2), 0));
    // R = 4 is carried from segment 35 on, until that segment is acknowledged.
    expect(
        &mut sender,
        &[16, 18, 20, 22, 24, 26, 28, 30, 32, 34],
        Some(4),
    );
    assert_eq!((sender.ack_ratio(), sender.lost_acks()), (Some(4), 1));
    // The receiver has R = 4. 50 is the first ACK that is 33.3 segments beyond 16.
    expect(&mut sender, &[38, 42, 46], None);
    expect(&mut sender, &[50, 54, 58, 62, 66], Some(3));
    // An ACK of four still shows nothing, until R = 3 is acknowledged.
    expect(&mut sender, &[70, 73, 76], None);
    // R = 3 is acknowledged: the ACK of 79 is lost.
    expect(&mut sender, &[80, 83, 86], None);
    expect(&mut sender, &[89, 92, 95, 98], Some(6));
    assert_eq!(sender.lost_acks(), 2);
    // The receiver may use R = 6 from when it was sent, so this shows nothing.
    expect(&mut sender, &[102, 105], Some(6));
    // It is 400/30 = 13.3 segments beyond 89, and R = 6 is acknowledged: R falls.
    expect(&mut sender, &[108, 114, 120], Some(5));
    // R = 5 is acknowledged by 126; 131 is 400/20 = 20 segments beyond 108.
    expect(&mut sender, &[126], None);
    expect(&mut sender, &[131, 136, 141, 146], Some(4));
    // Segment 147 carried R = 4. The ACK of 159 is lost; R does not fall until that is certain.
    expect(&mut sender, &[151, 155, 163, 167, 171], None);
    expect(&mut sender, &[175, 179, 183, 187, 191], Some(8));
    assert_eq!((sender.ack_ratio(), sender.lost_acks()), (Some(8), 3));
    // 400/56 = 7.1 and 400/42 = 9.5 segments: R falls as often as it may, once per round trip.
    expect(&mut sender, &[199, 207], Some(7));
    expect(&mut sender, &[215], Some(6));
}

#[test]
fn a_window_of_data_doubles_the_ratio_once() {
    let mut sender = open(true);
    expect(&mut sender, &[2, 4, 6, 10, 12, 14], None);
    expect(&mut sender, &[16, 22, 28], Some(4));
    // Six exceed either ratio, but the data were outstanding when R was doubled.
    expect(&mut sender, &[34], Some(4));
    expect(&mut sender, &[38, 42, 46], None);
    assert_eq!((sender.ack_ratio(), sender.lost_acks()), (Some(4), 2));
    // This is another window.
    expect(&mut sender, &[54, 58, 62], None);
    expect(&mut sender, &[66, 70, 74, 78, 82], Some(8));
    assert_eq!(sender.lost_acks(), 3);
    // R falls to 7. Ten segments then exceed 8, and twice seven exceeds half a window.
    expect(&mut sender, &[90, 100], Some(7));
    expect(&mut sender, &[107, 114], None);
    expect(&mut sender, &[121], Some(10));
}

#[test]
fn an_ack_that_comes_late_is_not_lost() {
    let mut sender = open(true);
    expect(&mut sender, &[2, 4, 6, 10, 12, 8, 14, 16, 18, 20], None);
    assert_eq!((sender.ack_ratio(), sender.lost_acks()), (Some(2), 0));
}

#[test]
fn a_receiver_that_does_not_permit_it_is_told_nothing() {
    let mut sender = open(false);
    expect(&mut sender, &[2, 8, 16, 18, 20, 22, 30, 32, 34, 36], None);
    assert_eq!(sender.lost_acks(), 0);
}

#[test]
fn a_hole_in_the_data_is_no_lost_ack() {
    let mut sender = open(true);
    expect(&mut sender, &[2, 4], None);
    // Segment 5 arrives after 6: one duplicate with a block, and then an ACK of everything.
    let mut duplicate = ack(4);
    duplicate.sack.push(Block {
        start: 5 * MSS,
        end: 6 * MSS,
    });
    sender.on_packet(&duplicate, 200 * MS);
    sent_ratios(&mut sender, 200 * MS);
    let una = sender.acknowledged() / MSS;
    for number in [una + 8, una + 10, una + 12, una + 14, una + 16] {
        sender.on_packet(&ack(number), 200 * MS);
        sent_ratios(&mut sender, 200 * MS);
    }
    assert_eq!((sender.ack_ratio(), sender.lost_acks()), (Some(2), 0));
}

#[test]
fn after_a_timeout_the_ratio_is_two() {
    let mut sender = open(true);
    expect(&mut sender, &[2, 4, 6, 10, 12, 14], None);
    expect(
        &mut sender,
        &[16, 18, 20, 22, 24, 26, 28, 30, 32, 34],
        Some(4),
    );
    expect(&mut sender, &[38], None);
    let before = sender.stats().timeouts;
    let mut ratios = Vec::new();
    while sender.stats().timeouts == before {
        let at = sender.next_timer().expect("a timer");
        sender.on_timer(at);
        ratios.extend(sent_ratios(&mut sender, at));
    }
    assert_eq!(ratios.last(), Some(&Some(2)), "{ratios:?}");
    assert_eq!(sender.ack_ratio(), Some(2));
}

#[test]
fn no_ratio_is_above_the_most() {
    let (mut sender, _) = configured(20, 3);
    sender.supply(u64::MAX);
    sender.open(0);
    sender.poll_transmit(0).expect("a SYN");
    let mut syn_ack = ack(0);
    syn_ack.flags |= Flags::SYN;
    syn_ack.permit_ratio();
    sender.on_packet(&syn_ack, 100 * MS);
    sent_ratios(&mut sender, 100 * MS);
    expect(&mut sender, &[2, 4, 6, 10, 12, 14], None);
    expect(&mut sender, &[16], Some(3));
}

/// Ends with a window of 200 segments and a round trip of 40 ms, and a queue that holds the window.
fn net(data: impl FnMut(&Packet, usize) -> Fate + 'static) -> Net {
    let forward = Pipe::new(20 * MS).rate(100_000_000, 1000).judge(data);
    Net::new(configured(200, 255), forward, Pipe::new(20 * MS))
}

#[test]
fn lost_acks_are_found_and_no_others() {
    for every in [97, 150, 400] {
        let mut net = net(|_, _| Fate::Pass);
        let back = Pipe::new(20 * MS).judge(move |p, n| {
            match p.is_pure_ack() && n > 50 && n % every == 0 {
                true => Fate::Drop,
                false => Fate::Pass,
            }
        });
        net.back = back;
        net.keep_log = false;
        net.start(20_000 * MSS);
        net.run_until(60 * SECOND);
        assert_eq!(net.receiver.delivered(), 20_000 * MSS);
        let (lost, found) = (net.back.dropped as u64, net.sender.lost_acks());
        assert!(lost > 5, "{lost}");
        // Just after R was doubled the receiver may use either value.
        assert!(found <= lost && 10 * found >= 6 * lost, "{found} of {lost}");
    }
}

/// Data lost, late and duplicated at random make no ACK count as lost: these ACKs all arrive.
#[test]
fn lost_data_are_no_lost_acks() {
    for seed in 0..40 {
        let mut rng = Rng::stream(seed, 1);
        let mut net = net(move |p, _| {
            if p.payload == 0 {
                return Fate::Pass;
            }
            match rng.below(200) {
                0 => Fate::Drop,
                1 => Fate::Late(3 * MS),
                2 => Fate::Twice,
                _ => Fate::Pass,
            }
        });
        net.keep_log = false;
        net.start(3_000 * MSS);
        net.run_until(100 * SECOND);
        assert_eq!(net.receiver.delivered(), 3_000 * MSS);
        assert!(net.sender.stats().retransmits > 3);
        assert_eq!(net.sender.lost_acks(), 0, "seed {seed}");
    }
}

/// ACKs that are slightly reordered do not count as lost either.
#[test]
fn acks_out_of_order_are_no_lost_acks() {
    let mut net = net(|_, _| Fate::Pass);
    net.back = Pipe::new(20 * MS).judge(|p, n| match p.is_pure_ack() && n % 7 == 0 {
        true => Fate::Late(MS / 4),
        false => Fate::Pass,
    });
    net.start(3_000 * MSS);
    net.run_until(30 * SECOND);
    assert_eq!(net.receiver.delivered(), 3_000 * MSS);
    assert_eq!(net.sender.lost_acks(), 0);
}

fn scenario(reverse: &str, flow: &str, arm: &str) -> Result<Scenario, String> {
    let text = format!(
        r#"
[scenario]
name = "ack-ratio"
duration = "20 s"
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
name = "wan"
between = ["a", "b"]
forward = {{ rate = "50 Mbit/s", delay = "20 ms", queue = "500 packets" }}
reverse = {{ delay = "20 ms", {reverse} }}
[[flow]]
name = "data"
from = "a"
to = "b"
app = "bulk"
ack_congestion_control = {{}}
{flow}
[sweep]
cc = ["reno"]
[[arm]]
name = "baseline"
[[arm]]
name = "x"
policy = "every-n"
at = "b"
link = "wan"
{arm}
"#
    );
    Scenario::parse("ack-ratio.toml", &text).map_err(|error| error.to_string())
}

/// The runs without and with the arm `x`.
fn runs(reverse: &str, arm: &str) -> (Run, Run) {
    let scenario = scenario(reverse, "", arm).unwrap_or_else(|error| panic!("{error}"));
    let mut runs = run(&scenario, &RunOptions::default(), &mut |_| {})
        .unwrap_or_else(|error| panic!("{error}"))
        .runs;
    let with = runs.pop().expect("two runs");
    (runs.pop().expect("two runs"), with)
}

/// ACKs dropped by the full queue.
fn drops(run: &Run) -> u64 {
    let queue = run.queues.iter().find(|queue| queue.name == "wan.reverse");
    queue.expect("the queue of the ACKs").drops
}

const FAST: &str = "rate = \"50 Mbit/s\", queue = \"500 packets\"";
/// A link too slow for 2000 ACKs of 54 bytes per second, which need 864 kbit/s.
const SLOW: &str = "rate = \"200 kbit/s\", queue = \"20 packets\"";
const DATAPATH: &str = "set = { n = 1 }\nobey_ack_rate = true\n";
const STACK: &str = "environment = \"stack\"\nset = { n = 2 }\nobey_ack_rate = true\n";

#[test]
fn a_full_uplink_loses_fewer_acks() {
    for place in [DATAPATH, STACK] {
        let (before, after) = runs(SLOW, place);
        let (lost, dropped) = (drops(&before), drops(&after));
        assert!(10 * dropped < lost, "{dropped} and {lost}");
        assert!(after.totals.bytes > 9 * before.totals.bytes / 10);
    }
}

#[test]
fn an_uplink_with_room_changes_nothing() {
    let (_, with) = runs(FAST, DATAPATH);
    let requests = &with.datapath.as_ref().expect("a datapath")["b/wan"]["ack_rate_requests"];
    assert!(requests.is_null(), "nothing was asked for: {requests}");
}

#[test]
fn the_record_is_the_same_each_time() {
    let record = || serde_json::to_string(&runs(SLOW, DATAPATH).1).expect("a record");
    assert_eq!(record(), record());
}

#[test]
fn a_receiver_with_fewer_acks_from_the_start_is_refused() {
    let scenario = scenario(FAST, "", "set = { n = 3 }\nobey_ack_rate = true\n").expect("valid");
    let refused = run(&scenario, &RunOptions::default(), &mut |_| {})
        .expect_err("n is above 2")
        .to_string();
    assert!(refused.contains("ACK Ratio starts at 2"), "{refused}");
    assert!(refused.contains("write set = { n = 2 }"), "{refused}");
}
