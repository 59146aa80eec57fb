//! Compares intervals with those of another implementation (`intervals.py`).

use ackwise_switchback::{Effect, Level};
use serde_json::Value;

#[test]
fn intervals_are_those_of_the_independent_implementation() {
    let rows: Vec<Value> = serde_json::from_str(include_str!("intervals.json")).unwrap();
    assert!(rows.len() >= 6);
    for row in rows {
        let mut effect = Effect::default();
        for difference in row["differences"].as_array().unwrap() {
            effect.add(difference.as_f64().unwrap().exp(), 1.0);
        }
        let seen = effect.interval(Level::new(0.05).unwrap());
        let low = row["low"].as_f64().unwrap();
        assert!((seen.low - low).abs() < 1e-6, "{seen:?} {row}");
        match row["high"].as_f64() {
            Some(high) => assert!((seen.high / high - 1.0).abs() < 1e-6, "{seen:?} {row}"),
            None => assert_eq!(seen.high, f64::INFINITY),
        }
    }
}
