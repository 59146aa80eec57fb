//! `ackwise check`: says what configuration files ask for.

use std::path::Path;

use ackwise_cli::{Format, text};
use ackwise_config::ConfigError;
use ackwise_config::interfaces::{Guard, Interface, Interfaces, UplinkQueue};

use super::settings::load_with_policies;
use super::text::shaped;
use crate::linux::cli::up::CheckArgs;

/// Prints what each file asks for, or all that is wrong with it.
pub fn check(args: &CheckArgs, format: Format) -> anyhow::Result<()> {
    crate::linux::check::files(&args.files, format, load, describe)
}

/// Reads a file and checks its policies.
pub fn load(path: &Path) -> Result<Interfaces, ConfigError> {
    load_with_policies(path)
}

fn describe(file: &Interfaces) -> String {
    match &file.all[..] {
        [] => "no interface, so `ackwise up --all` has nothing to do".to_owned(),
        all => all.iter().map(one).collect::<Vec<_>>().join(", "),
    }
}

fn one(interface: &Interface) -> String {
    let name = &interface.name.text;
    let policy = interface.policy.as_ref();
    let mut with = vec![policy.map_or("adaptive".to_owned(), |word| word.text.clone())];
    with.extend(interface.queue.map(|queue| {
        let queue = match queue {
            UplinkQueue::Cake => "cake",
            UplinkQueue::Gateway => "gateway",
        };
        format!("queue {queue}")
    }));
    with.extend(interface.overhead.map(|bytes| format!("overhead {bytes}")));
    if interface.router {
        with.push("router".to_owned());
    }
    match interface.guard {
        Some(Guard::Off) => with.push("not guarded".to_owned()),
        Some(Guard::Every(span)) => {
            with.push(format!(
                "guarded every {}",
                text::micros(span.as_secs_f64() * 1e6)
            ));
        }
        Some(Guard::On) | None => {}
    }
    with.extend(
        interface
            .max_flows
            .map(|flows| format!("at most {flows} flows")),
    );
    with.extend(interface.metrics.map(|it| format!("metrics on {it}")));
    let user = interface.user.as_ref();
    with.extend(user.map(|user| format!("as the user {user}")));
    let with = with.join("; ");
    match interface.up {
        Some(up) => format!("{name} at {} ({with})", shaped(up.bps, up.min_bps)),
        None => format!("{name} ({with})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_a_file_asks_for_is_said() {
        let said = |text: &str| {
            let path = Path::new("ackwise.toml");
            describe(&Interfaces::parse(path, text).unwrap())
        };
        let all = "[[interface]]\nname = \"wan0\"\nup = \"4.75mbit\"\noverhead = 22\nrouter = \
                   true\nqueue = \"gateway\"\nuser = \"nobody\"\n";
        assert_eq!(
            said(all),
            "wan0 at 4.750 Mbit/s (adaptive; queue gateway; overhead 22; router; as the user \
             nobody)"
        );
        assert!(said("").starts_with("no interface, so `ackwise up --all`"));
    }
}
