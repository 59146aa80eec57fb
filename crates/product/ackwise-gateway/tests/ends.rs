//! What ends a gateway from outside, and that packets then take their ordinary path.

mod common;

use std::thread;
use std::time::Duration;

use ackwise_gateway::{AttachMode, Config, Ended, Error, Gateway};
use common::{AccessNetwork, alone, assert_cleaned_up, ip, run_command, transfer, until};

#[test]
fn without_a_sign_of_life_packets_pass() {
    let _alone = alone();
    let network = AccessNetwork::new();
    let gateway = network.gateway("8 kbit/s", "\"5 packets\"");
    gateway.freeze(true);
    // Half a second, plus the check that was in progress.
    thread::sleep(Duration::from_secs(2));
    // At 8 kbit/s this would take half an hour.
    transfer(&network.host, &network.server, "10.9.2.2:5001");
    let stats = gateway.stop().unwrap();
    assert!(stats.passed.unattended > 20, "{stats:#?}");
    assert!(stats.read < 10, "{stats:#?}");
    assert_cleaned_up(&network);
}

#[test]
fn when_its_device_is_deleted_or_down_packets_pass() {
    let _alone = alone();
    for what in ["link delete {}", "link set {} down"] {
        let network = AccessNetwork::new();
        let gateway = network.gateway("8 kbit/s", "\"5 packets\"");
        let device = gateway.stats().unwrap().device;
        network.router.run(|| ip(&what.replace("{}", &device)));
        let ended = until("the end", || gateway.ended());
        assert_eq!(ended, Ended::DeviceGone);
        transfer(&network.host, &network.server, "10.9.2.2:5001");
        assert!(matches!(gateway.stop(), Err(Error::DeviceGone(name)) if name == device));
        assert_cleaned_up(&network);
    }
}

#[test]
fn when_someone_removes_its_filter_from_clsact_it_ends() {
    let _alone = alone();
    for what in ["qdisc del dev wan0 clsact", "filter del dev wan0 egress"] {
        let network = AccessNetwork::new();
        let text = "interface = \"wan0\"\nrate = \"8 kbit/s\"\n";
        let config = Config::parse("test", text).unwrap();
        let start = || Gateway::start(config, AttachMode::Clsact);
        let gateway = network.router.run(start).unwrap();
        network.router.run(|| run_command("tc", what));
        let ended = until("the end", || gateway.ended());
        assert_eq!(ended, Ended::FilterGone, "{what}");
        transfer(&network.host, &network.server, "10.9.2.2:5001");
        let error = gateway.stop().unwrap_err();
        assert!(
            matches!(&error, Error::FilterGone(name) if name == "wan0"),
            "{error}"
        );
        assert_cleaned_up(&network);
    }
}

#[test]
fn it_ends_with_its_interface() {
    let _alone = alone();
    let network = AccessNetwork::new();
    let gateway = network.gateway("1 Mbit/s", "\"5 packets\"");
    network.router.run(|| ip("link delete wan0"));
    assert_eq!(until("the end", || gateway.ended()), Ended::InterfaceGone);
    assert!(matches!(gateway.stop(), Err(Error::InterfaceGone(name)) if name == "wan0"));
    assert_cleaned_up(&network);
}
