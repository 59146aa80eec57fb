//! Properties that the policies must have whatever happens to a flow.

use ackwise_policy::{Config, Event, EventFlags, EventKind, Policy, PolicyState, Verdict};
use proptest::prelude::*;

fn config(text: &str) -> Config {
    text.parse().unwrap()
}

/// The sequence of candidate ACKs that a receiver makes, and the flow's account of them.
struct Account {
    now_us: u64,
    pending: u32,
}

impl Account {
    fn ack(&mut self, after_us: u64, step: u32) -> Event {
        self.now_us += after_us;
        self.pending += step;
        Event {
            segments: self.pending,
            bytes: self.pending * 1448,
            len: 52,
            mss: 1448,
            rcv_wnd: 1 << 20,
            min_rtt_us: 40_000,
            srtt_us: 40_000,
            hold_us: 10_000,
            ..Event::ack(self.now_us)
        }
    }

    /// Returns what an ACK that leaves has covered.
    fn leaves(&mut self) -> u32 {
        std::mem::take(&mut self.pending)
    }
}

fn any_event() -> impl Strategy<Value = (u32, Event)> {
    let flags = prop::sample::select(vec![
        EventFlags::empty(),
        EventFlags::empty(),
        EventFlags::OUT_OF_ORDER,
        EventFlags::FILLS_GAP,
        EventFlags::CE | EventFlags::PSH,
        EventFlags::MUST_SEND,
        EventFlags::RECOVERY,
        EventFlags::HOLDING,
    ]);
    let kind = prop::sample::select(vec![EventKind::Data, EventKind::Ack, EventKind::Deadline]);
    let number = || prop_oneof![0u32..4, 0u32..100_000, any::<u32>()];
    let facts = (number(), number(), number(), number(), number());
    let sizes = (number(), number(), number(), 0u32..32, number());
    (number(), kind, flags, sizes, facts).prop_map(|(after, kind, flags, sizes, facts)| {
        let event = Event {
            kind,
            flags,
            bytes: sizes.0,
            segments: sizes.1,
            len: sizes.2,
            hops: sizes.3,
            peer_wnd: sizes.4,
            mss: facts.0,
            rcv_wnd: facts.1,
            srtt_us: facts.2,
            min_rtt_us: facts.3,
            hold_us: facts.4,
            ..Event::data(0)
        };
        (after, event)
    })
}

/// A policy with any values of its parameters.
fn any_config() -> impl Strategy<Value = Config> {
    let policies: Vec<Policy> = Policy::all().collect();
    (
        prop::sample::select(policies),
        prop::collection::vec(any::<u32>(), 12),
    )
        .prop_map(|(policy, values)| {
            let mut config = Config::new(policy);
            for (param, value) in policy.params().iter().zip(values) {
                let span = u64::from(param.max - param.min) + 1;
                // The thresholds are at small values, so take them often.
                let value = if value % 2 == 0 {
                    u64::from(value >> 1) % span.min(16)
                } else {
                    u64::from(value) % span
                };
                config
                    .set_number(param.name, u64::from(param.min) + value)
                    .unwrap();
            }
            config
        })
}

/// The minimum of a wait yields to the bound of the environment.
#[test]
fn hop_waits_no_longer_than_an_environment_allows() {
    let config = config("hop:per_hop=0,patience=1,min_patience=1");
    let mut state = PolicyState::default();
    let window = |event| Event {
        mss: 1000,
        peer_wnd: 3000,
        hold_us: 0,
        ..event
    };
    for now_us in [0, 1, 2] {
        state.step(&config, &window(Event::data(now_us)));
    }
    // A gap of 1 us, two segments missing, an eighth of a gap for each: below 1 us.
    let ack = Event {
        segments: 1,
        ..window(Event::ack(2))
    };
    assert_eq!(state.step(&config, &ack), Verdict::Hold { us: 0 });
}

#[test]
fn a_brief_form_names_what_is_not_at_its_default() {
    assert_eq!(config("adaptive").brief(), "adaptive");
    assert_eq!(config("every-n:n=8,warm=16").brief(), "every-n");
    assert_eq!(config("every-n:n=4,warm=0").brief(), "every-n:n=4,warm=0");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn both_forms_are_read_back(config in any_config()) {
        prop_assert_eq!(config.brief().parse::<Config>().unwrap(), config);
        prop_assert_eq!(config.to_string().parse::<Config>().unwrap(), config);
    }

    #[test]
    fn no_policy_holds_longer_than_it_may_or_what_it_must_not(
        config in any_config(),
        events in prop::collection::vec(any_event(), 1..200),
    ) {
        let mut state = PolicyState::default();
        let mut now_us = 0;
        for (after, mut event) in events {
            now_us += u64::from(after);
            event.now_us = now_us;
            match state.step(&config, &event) {
                Verdict::Send => {}
                Verdict::Hold { us } => {
                    prop_assert!(us <= event.hold_us, "{config}: held {us} of {}", event.hold_us);
                    prop_assert_eq!(event.kind, EventKind::Ack, "{} holds what is no ACK", config);
                    prop_assert!(
                        !event.flags.contains(EventFlags::MUST_SEND),
                        "{config} has a verdict on what must leave",
                    );
                }
                Verdict::Drop => prop_assert!(false, "{config} drops"),
            }
        }
    }

    /// Clocks wrap, so the position of zero must not matter. The paper's listing as printed times
    /// its first window from zero of the clock, so there it does.
    #[test]
    fn no_policy_knows_what_time_it_is(
        config in any_config(),
        shift in any::<u32>(),
        events in prop::collection::vec(any_event(), 1..200),
    ) {
        prop_assume!(config.policy().name() != "rate-limit-literal");
        let (mut here, mut there) = (PolicyState::default(), PolicyState::default());
        let mut now_us = 0;
        for (after, mut event) in events {
            now_us += u64::from(after);
            event.now_us = now_us;
            let verdict = here.step(&config, &event);
            event.now_us = now_us + u64::from(shift);
            prop_assert_eq!(there.step(&config, &event), verdict, "{}", config);
        }
    }

    #[test]
    fn every_n_covers_n_at_most_and_nearly_n(n in 2u32..64, step in 1u32..3, acks in 200usize..400) {
        let config = config(&format!("every-n:n={n},warm=0"));
        let mut state = PolicyState::default();
        let mut account = Account { now_us: 0, pending: 0 };
        let mut left = Vec::new();
        for _ in 0..acks {
            if state.step(&config, &account.ack(100, step)) == Verdict::Send {
                left.push(account.leaves());
            }
        }
        // Exactly the largest multiple of the receiver's step that n allows.
        prop_assert!(left.iter().all(|covered| *covered == n / step * step), "{left:?}");
        prop_assert!(!left.is_empty());
    }

    #[test]
    fn every_n_is_off_by_a_step_of_the_receiver_at_most(
        n in 1u32..64,
        steps in prop::collection::vec(1u32..3, 1..300),
    ) {
        let config = config(&format!("every-n:n={n},warm=0"));
        let mut state = PolicyState::default();
        let mut account = Account { now_us: 0, pending: 0 };
        for step in steps {
            let event = account.ack(100, step);
            if state.step(&config, &event) == Verdict::Send {
                let covered = account.leaves();
                prop_assert!(covered <= n + 1, "{covered} of {n}");
            }
        }
    }

    #[test]
    fn police_keeps_to_rate_and_burst(
        cir in 100u32..100_000,
        cbs in 40u32..10_000,
        acks in prop::collection::vec((0u64..20_000, 40u32..100), 1..400),
    ) {
        let config = config(&format!("police:cir={cir},cbs={cbs}"));
        let mut state = PolicyState::default();
        let mut account = Account { now_us: 0, pending: 0 };
        // Every interval that starts with a departure; here that is the whole run.
        let mut begin = None;
        let mut bytes = 0u64;
        for (after, len) in acks {
            let event = Event { len, ..account.ack(after, 2) };
            begin.get_or_insert(event.now_us);
            if state.step(&config, &event) == Verdict::Send {
                account.leaves();
                bytes += u64::from(len);
                let spent = event.now_us - begin.unwrap_or(0);
                prop_assert!(
                    bytes * 1_000_000 <= u64::from(cbs) * 1_000_000 + u64::from(cir) * spent,
                    "{bytes} bytes in {spent} us",
                );
            }
        }
    }

    #[test]
    fn police_uses_the_rate_it_has(cir in 5_000u32..50_000, gap in 10u64..500) {
        let config = config(&format!("police:cir={cir},cbs=104"));
        let mut state = PolicyState::default();
        let mut account = Account { now_us: 0, pending: 0 };
        let mut bytes = 0u64;
        while account.now_us < 2_000_000 {
            let event = account.ack(gap, 2);
            if state.step(&config, &event) == Verdict::Send {
                account.leaves();
                bytes += 52;
            }
        }
        // Tokens wait for the next candidate for at most 500 us: less than the 1.04 ms that one of
        // 52 bytes takes at the highest rate, so none are lost.
        prop_assert!(bytes + 104 >= u64::from(cir) * 2, "{bytes} of {}", cir * 2);
    }

    #[test]
    fn rate_limit_never_stretches_beyond_its_bounds(
        r_max in 1u32..40,
        wnd in 3u32..200,
        gaps in prop::collection::vec(1u64..1000, 1000..2000),
    ) {
        let config = config(&format!("rate-limit:start=10,window=10,hold=0,r_max={r_max}"));
        let mut state = PolicyState::default();
        let mut now_us = 0;
        let bound = r_max.min(wnd / 3).max(1);
        for gap in gaps {
            now_us += gap;
            let facts = Event {
                mss: 1000,
                rcv_wnd: wnd * 1000,
                hold_us: 5000,
                segments: 1,
                bytes: 1000,
                ..Event::data(now_us)
            };
            state.step(&config, &facts);
            let ack = |segments| Event { kind: EventKind::Ack, segments, ..facts };
            prop_assert_eq!(state.step(&config, &ack(bound + 1)), Verdict::Send);
        }
    }

    #[test]
    fn tack_keeps_its_distance_on_a_full_path(beta in 2u32..16, step in 2u32..8) {
        let config = config(&format!("tack:beta={beta}"));
        let mut state = PolicyState::default();
        let mut account = Account { now_us: 0, pending: 0 };
        // One candidate every 100 us: at least 29 MB/s, 1.1 MB on the path.
        let mut left = Vec::new();
        for _ in 0..4000 {
            let event = account.ack(100, step);
            if state.step(&config, &event) == Verdict::Send {
                account.leaves();
                left.push(event.now_us);
            }
        }
        let period = u64::from(40_000 / beta);
        let steady: Vec<u64> = left.windows(2).map(|w| w[1] - w[0]).filter(|gap| *gap >= period).collect();
        prop_assert!(left.windows(2).skip_while(|w| w[0] < 40_000).all(|w| w[1] - w[0] >= period));
        prop_assert!(steady.iter().all(|gap| *gap < period + 100), "{steady:?}");
        prop_assert!(steady.len() as u64 >= 350_000 / (period + 100));
    }

    #[test]
    fn adaptive_never_covers_more_than_max_segments(
        max in 2u32..64,
        steps in prop::collection::vec((0u64..3000, 1u32..3), 100..500),
    ) {
        let config = config(&format!("adaptive:max_segments={max}"));
        let mut state = PolicyState::default();
        let mut account = Account { now_us: 0, pending: 0 };
        for (after, step) in steps {
            let event = account.ack(after, step);
            if state.step(&config, &event) == Verdict::Send {
                let covered = account.leaves();
                prop_assert!(covered <= max + 1, "{covered} of {max}");
            }
        }
    }

    #[test]
    fn parsing_arbitrary_bytes_ends_well(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        total in 0usize..70_000,
    ) {
        for link in [ackwise_policy::LinkKind::Ethernet, ackwise_policy::LinkKind::Ip] {
            if let Ok(segment) = ackwise_policy::parse_part(&bytes, link, total) {
                let raw = segment.raw();
                prop_assert!(usize::from(raw.l4_off) + usize::from(raw.l4_len) <= bytes.len());
                prop_assert!(usize::from(raw.l3_off) + segment.ip_len() as usize <= total);
            }
        }
    }
}
