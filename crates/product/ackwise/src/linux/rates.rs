//! Formats rates for a person.

use ackwise_autorate::State;

/// A rate in the largest unit of which it has at least one.
pub fn rate(bps: u64) -> String {
    let bps = bps as f64;
    match bps {
        _ if bps >= 1e9 => format!("{:.3} Gbit/s", bps / 1e9),
        _ if bps >= 1e6 => format!("{:.3} Mbit/s", bps / 1e6),
        _ => format!("{:.1} kbit/s", bps / 1e3),
    }
}

/// A measured rate, what the link was last seen to carry, and what sets the rate.
pub fn measured_rate(rate_bps: u64, link_bps: Option<u64>, state: State) -> String {
    let bps = rate(rate_bps);
    let link = match link_bps {
        Some(bps) => format!("link {}", rate(bps)),
        None => "link rate not known now".to_owned(),
    };
    let state = match state {
        State::Blind => "nothing to measure".to_owned(),
        State::Idle => "little to send".to_owned(),
        State::Growing => "growing".to_owned(),
        State::Following => "following".to_owned(),
        State::Halted(why) => why.to_string(),
    };
    format!("{bps} ({state}; {link})")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was measured is forgotten when nothing is sent, so neither may say "yet".
    #[test]
    fn what_is_not_known_now_may_have_been_known() {
        assert_eq!(
            measured_rate(5_000_000, None, State::Blind),
            "5.000 Mbit/s (nothing to measure; link rate not known now)"
        );
        assert_eq!(
            measured_rate(5_000_000, Some(6_000_000), State::Following),
            "5.000 Mbit/s (following; link 6.000 Mbit/s)"
        );
    }
}
