//! States of a node's radio, the time spent in them, and the energy that they take.

use crate::scenario::EnergyModel;
use ackwise_queue::Nanos;

/// State of a radio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// On, but receiving nothing.
    Idle = 0,
    /// Receiving a frame, whatever its destination.
    Receive = 1,
    /// Sending a frame.
    Transmit = 2,
    /// Off.
    Sleep = 3,
}

/// The time that a radio spent in each state.
#[derive(Debug, Clone)]
pub struct Meter {
    state: Power,
    since: Nanos,
    spent: [Nanos; 4],
}

impl Default for Meter {
    fn default() -> Meter {
        Meter {
            state: Power::Idle,
            since: 0,
            spent: [0; 4],
        }
    }
}

impl Meter {
    /// Enters a state.
    pub fn enter(&mut self, state: Power, now: Nanos) {
        self.spent[self.state as usize] += now - self.since;
        self.since = now;
        self.state = state;
    }

    /// Accounts for the current state up to now.
    pub fn count(&mut self, now: Nanos) {
        self.enter(self.state, now);
    }

    /// Nanoseconds spent in a state, up to the last change.
    pub fn spent(&self, state: Power) -> Nanos {
        self.spent[state as usize]
    }

    /// Joules used up to the last change.
    pub fn joules(&self, model: &EnergyModel) -> f64 {
        let states = [
            (Power::Idle, model.idle_ma),
            (Power::Receive, model.rx_ma),
            (Power::Transmit, model.tx_ma),
            (Power::Sleep, model.sleep_ma),
        ];
        let charge: f64 = states
            .iter()
            .map(|(state, ma)| ma * 1e-3 * self.spent(*state) as f64 * 1e-9)
            .sum();
        charge * model.voltage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The powers of Ayadi's Table 2: 51.0, 58.8, 4.14 and 0.18 mW.
    #[test]
    fn a_second_of_each() {
        let model = EnergyModel::default();
        let mut meter = Meter::default();
        let second = 1_000_000_000;
        meter.enter(Power::Transmit, second);
        assert!((meter.joules(&model) - 4.14e-3).abs() < 1e-12);
        meter.enter(Power::Receive, 2 * second);
        assert!((meter.joules(&model) - 55.14e-3).abs() < 1e-12);
        meter.enter(Power::Sleep, 3 * second);
        assert!((meter.joules(&model) - 113.94e-3).abs() < 1e-12);
        meter.enter(Power::Idle, 4 * second);
        assert!((meter.joules(&model) - 114.12e-3).abs() < 1e-12);
        assert_eq!(meter.spent(Power::Transmit), second);
    }
}
