//! Compares the programs, as the kernel runs them, with the same policies and contract compiled for
//! this machine, in a model of the datapath: random and mutated frames of a few connections, in
//! both directions, under a clock that the test sets. After each frame the verdict, reason, hold
//! time, parsed fields, the whole state of the flow, and all counters must be the same; so must the
//! bytes of the packet afterwards, those of its clones, and those of the held ACK that the timer
//! hands to user space.
//!
//! A script on which they differ is shortened and printed, and should be added to
//! `differential/kept.script`, which is played every time.
//!
//! Seeds are fixed. `FUZZ_SECONDS=300 cargo test -p ackwise-datapath --test differential` runs for
//! that long with random ones; `FUZZ_SEED` starts with one that was printed.

mod common;
#[path = "differential/frames.rs"]
mod frames;
#[path = "differential/generate.rs"]
mod generate;
#[path = "differential/model.rs"]
mod model;
#[path = "differential/script.rs"]
mod script;
#[path = "differential/world.rs"]
mod world;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ackwise_policy::{Capabilities, Policy};
use common::{Netns, alone};
use script::Script;
use world::{Divergence, Tally, World};

/// Policies that withhold much, use times, and echo marks.
const POLICIES: [&str; 4] = ["every-n:n=256,warm=0", "adaptive", "tack", "acc"];
/// The number of scripts of each policy with fixed seeds.
const FIXED: u64 = 50;

/// Removes steps while the two still disagree.
fn shorten(world: &mut World, mut script: Script, mut found: Divergence) -> (Script, Divergence) {
    script.steps.truncate(found.step + 1);
    let mut size = script.steps.len() / 2;
    let mut tries = 0;
    while size > 0 && tries < 3000 {
        let mut at = 0;
        let mut shorter = false;
        while at < script.steps.len() && tries < 3000 {
            let mut less = script.clone();
            let end = (at + size).min(less.steps.len());
            // Later steps happen at the same time as before.
            let skipped: u64 = less.steps.drain(at..end).map(|step| step.wait).sum();
            if let Some(step) = less.steps.get_mut(at) {
                step.wait += skipped;
            }
            tries += 1;
            match world.run(&less) {
                Ok(()) => at += size,
                Err(divergence) => {
                    (script, found, shorter) = (less, divergence, true);
                }
            }
        }
        if !shorter || size > 1 {
            size /= 2;
        }
    }
    (script, found)
}

/// Plays a script; a divergence fails the test with the shortest script that shows it.
fn run(world: &mut World, script: &Script, origin: &str) {
    let Err(found) = world.run(script) else {
        return;
    };
    let mut fresh = World::load(script);
    let (shortest, why) = match fresh.run(script) {
        Err(again) => shorten(&mut fresh, script.clone(), again),
        Ok(()) => (script.clone(), found),
    };
    panic!(
        "{origin}: after step {}: {}\n\n{shortest}",
        why.step, why.what
    );
}

/// A setup for each policy, position and link; with `all`, for every policy that the datapath
/// accepts.
fn worlds(all: bool) -> Vec<(Script, World)> {
    let mut policies: Vec<String> = POLICIES.map(str::to_owned).to_vec();
    if all {
        policies.push("every-n:n=8,warm=0".to_owned());
        let can = Capabilities::DATAPATH;
        let others = Policy::all().filter(|policy| policy.check(can).is_ok());
        policies.extend(others.map(|policy| policy.to_string()));
    }
    let first = POLICIES[0].to_owned();
    let mut setups: Vec<(String, &str, bool)> =
        vec![(first.clone(), "sender", true), (first, "receiver", false)];
    setups.extend(
        policies
            .into_iter()
            .map(|policy| (policy, "receiver", true)),
    );
    setups
        .into_iter()
        .map(|(policy, position, ethernet)| {
            let setup = generate::script(0, &policy, position, ethernet);
            let world = World::load(&setup);
            (setup, world)
        })
        .collect()
}

fn play_seed(world: &mut World, setup: &Script, seed: u64) {
    let script = generate::script(seed, &setup.policy, setup.position, setup.ethernet);
    run(world, &script, &format!("seed {seed}"));
}

fn total(worlds: &[(Script, World)]) -> Tally {
    let mut total = Tally::default();
    for (_, world) in worlds {
        total.frames += world.tally.frames;
        total.refused += world.tally.refused;
        total.emissions += world.tally.emissions;
        total.returns += world.tally.returns;
        total.clones += world.tally.clones;
        total.tagged += world.tally.tagged;
        for (sum, n) in total.ends.iter_mut().zip(world.tally.ends) {
            *sum += n;
        }
        for (what, n) in &world.tally.seen {
            *total.seen.entry(what.clone()).or_default() += n;
        }
    }
    total
}

#[test]
fn fuzz_the_kernel_does_what_the_model_does() {
    let _alone = alone();
    Netns::new().run(|| {
        let seconds = number("FUZZ_SECONDS");
        let mut worlds = worlds(seconds.is_some());
        for (setup, world) in &mut worlds {
            for seed in 1..=FIXED {
                play_seed(world, setup, seed);
            }
        }
        if let Some(seconds) = seconds {
            for_seconds(&mut worlds, seconds);
        }
        let seen = total(&worlds);
        println!("{seen:#?}");
        // Every result of the parser and every reason but one occurs: that one needs a policy that
        // says that a newer ACK will follow.
        for reason in ackwise_policy::Reason::all() {
            let name = reason.name();
            assert!(
                seen.seen.contains_key(name) || name == "dropped",
                "no frame for the reason {name}: {seen:#?}"
            );
        }
        assert!(seen.emissions > 100 && seen.returns > 100, "{seen:#?}");
        assert!(seen.clones > 100 && seen.tagged > 1000, "{seen:#?}");
        assert!(seen.ends.iter().all(|n| *n > 0), "{seen:#?}");
    });
}

/// Replays earlier findings.
#[test]
fn what_was_found_stays_mended() {
    let _alone = alone();
    Netns::new().run(|| {
        for script in script::read(include_str!("differential/kept.script")) {
            assert_eq!(
                script::read(&script.to_string()),
                std::slice::from_ref(&script)
            );
            run(&mut World::load(&script), &script, "kept");
        }
    });
}

/// Plays random scripts for this long, all setups in turn.
fn for_seconds(worlds: &mut [(Script, World)], seconds: u64) {
    let first = number("FUZZ_SEED").filter(|seed| *seed > 0);
    let first = first.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(1, |now| now.as_nanos() as u64) >> 8
    });
    println!("FUZZ_SEED={first}");
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut seed = first;
    while Instant::now() < end {
        for (setup, world) in worlds.iter_mut() {
            play_seed(world, setup, seed);
        }
        seed = seed.wrapping_add(1);
    }
    println!("{} scripts of each setup", seed.wrapping_sub(first));
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some((text.parse()).unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}
