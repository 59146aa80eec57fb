//! Mistakes in radio scenarios: each is found at its place in the file.

use ackwise_radio::scenario::{
    MacModel, RadioFlowRecord, RadioReport, RadioRun, RadioScenario, Routing,
};
use ackwise_scenario::Filter;

const ARM: &str = "[[arm]]\nname = \"tcp\"\n";

fn mistake(text: &str) -> String {
    let whole = format!("[scenario]\nname = \"t\"\n{text}");
    let error = RadioScenario::parse("t.toml", &whole).err();
    let text = error.map(|e| e.to_string()).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn mistakes_are_found_where_they_stand() {
    let chain = "[radio]\ntopology = \"chain\"\n";
    let places = "[radio]\ntopology = \"positions\"\n";
    let flow = "[[flow]]\nfrom = 0\nto = 2\n";
    for (text, expected) in [
        (
            format!("{places}positions = [[0, 0], [30, 0], [90, 0]]\n{flow}{ARM}"),
            "t.toml:6:1: there is no path from node 0 to node 2: nodes 1 and 2, the nearest across the gap, are 60.0 m apart, and a radio reaches 50 m",
        ),
        (
            format!("{places}positions = [[0, 0], [30], [60, 0]]\n{flow}{ARM}"),
            "t.toml:5:22: the position of node 1 must be a pair of numbers in metres, e.g. [30, 0]",
        ),
        (
            format!("{places}positions = [[0, 0], [30, 0]]\n{flow}{ARM}"),
            "t.toml:8:6: node 2 has no position; 'positions' has 2 nodes, numbered from 0",
        ),
        (
            format!("{places}{flow}{ARM}"),
            "t.toml:4:12: 'positions' is missing: write a pair in metres for each node, e.g. positions = [[0, 0], [30, 0]]",
        ),
        (
            format!("{chain}spacing = 60\n{ARM}"),
            "t.toml:5:11: nodes 0 and 1 are 60 m apart, and a radio reaches 50 m: out of range",
        ),
        (
            format!("{chain}hops = [2, 64]\n{ARM}"),
            "t.toml:5:12: the hop limit: 'hops' must be between 1 and 63, not 64",
        ),
        (
            format!("{chain}[energy]\ntx = -17\n{ARM}"),
            "t.toml:6:6: 'tx' is negative: -17; it must be between 0 and 10000 mA",
        ),
        (
            format!("{chain}{ARM}model = {{ segment = \"80 B\" }}\n"),
            "t.toml:7:9: a segment of 80 B makes a frame of 131 B, and a frame may have 127 B; lower 'segment' by 4 B",
        ),
        (
            format!("{chain}min_be = 6\n{ARM}"),
            "t.toml:5:10: 'min_be' (6) is above 'max_be' (5)",
        ),
        (
            format!("{chain}{ARM}radio = {{ range = 90 }}\n"),
            "t.toml:7:11: unknown key 'range' in 'radio' of arm 'tcp'; known: carrier_sense, interference, capture, bit_errors, routing, link_feedback, hellos, local_repair, mac_preset, min_be, max_be, max_backoffs, max_retries, mac_header, queue, first_slot, ack_wait, pauses, look_setup, wake_up, phase_lock",
        ),
        (
            format!("{chain}{ARM}radio = {{ mac_header = \"40 B\" }}\n"),
            "t.toml:5:1: a segment of 48 B makes a frame of 128 B, and a frame may have 127 B; lower 'segment' by 1 B",
        ),
        (
            format!("{chain}{ARM}radio = {{ mac_preset = \"inetmanet\" }}\n"),
            "t.toml:7:24: unknown mac_preset 'inetmanet'; known: 802.15.4, inetmanet-2011",
        ),
        (
            format!("{chain}ack_wait = \"500 us\"\n{ARM}"),
            "t.toml:5:12: 'ack_wait' must be between 545µs and 100ms, not 500µs",
        ),
        (
            format!("{chain}routing = \"static\"\n{ARM}radio = {{ hellos = true }}\n"),
            "t.toml:8:20: 'hellos' needs AODV; remove it, or write routing = \"aodv\"",
        ),
        (
            format!("{chain}phase_lock = false\n{ARM}"),
            "t.toml:5:14: 'phase_lock' needs radios that sleep; add e.g. wake_up = \"125 ms\"",
        ),
        (
            format!("{chain}wake_up = \"3 ms\"\n{ARM}"),
            "t.toml:5:11: 'wake_up' must be between 20ms and 2s, not 3ms",
        ),
        (
            chain.to_owned(),
            "t.toml:1:1: there is no arm; add [[arm]] with a name",
        ),
    ] {
        assert_eq!(mistake(&text), expected, "{text}");
    }
}

/// Runs that would count twice, more nodes than fit in memory, and energies by which throughput
/// cannot be divided.
#[test]
fn what_no_run_could_be_judged_by_is_refused() {
    let chain = "[radio]\ntopology = \"chain\"\n";
    for (text, expected) in [
        (
            format!("{chain}hops = [2, 4, 2]\n{ARM}"),
            "t.toml:5:15: 'hops': 2 is given twice",
        ),
        (
            format!("{chain}parallel = [1, 1]\n{ARM}"),
            "t.toml:5:16: 'parallel': 1 is given twice",
        ),
        (
            format!("[radio]\ntopology = \"grid\"\nhops = [31, 32]\n{ARM}"),
            "t.toml:5:13: a grid with 32 hops per side has 1089 nodes, and the limit is 1024",
        ),
        (
            format!("{chain}[energy]\nvoltage = 0\n{ARM}"),
            "t.toml:6:11: 'voltage' is out of range: 0; it must be between 0.001 and 48 V",
        ),
        (
            format!("{chain}[energy]\ntx = 0\nrx = 0\nidle = 0\n{ARM}"),
            "t.toml:5:1: a radio uses no energy to send, receive or listen, so throughput per joule is undefined; set 'tx', 'rx' or 'idle' to at least 0.001 mA",
        ),
    ] {
        assert_eq!(mistake(&text), expected, "{text}");
    }
}

#[test]
fn a_hop_limit_counts_given_positions_too() {
    let places: Vec<String> = (0..66).map(|i| format!("[{}, 0]", 50 * i)).collect();
    let text = format!(
        "[radio]\ntopology = \"positions\"\npositions = [{}]\n[[flow]]\nfrom = 0\nto = 65\n{ARM}",
        places.join(", ")
    );
    assert_eq!(
        mistake(&text),
        "t.toml:6:1: the path from node 0 to node 65 has 65 hops, and the hop limit is 63"
    );
}

#[test]
fn fields_are_what_they_are_called() {
    let text = format!("[scenario]\n[radio]\ntopology = \"grid\"\nhops = 4\n{ARM}");
    let s = RadioScenario::parse("t.toml", &text).unwrap_or_else(|e| panic!("{e}"));
    let field = &s.fields[0];
    assert_eq!(field.places.len(), 25);
    let ways: Vec<_> = field.flows.iter().map(|f| (f.from, f.to)).collect();
    assert_eq!(ways, [(0, 4), (10, 14), (20, 24), (2, 22)]);
    let text = text
        .replace("grid", "cross")
        .replace("hops = 4", "hops = [2, 4]\nparallel = 3");
    let s = RadioScenario::parse("t.toml", &text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(s.fields[0].places.len(), 5);
    assert_eq!(s.fields[1].places.len(), 9);
    assert_eq!(s.fields[0].flows.len(), 6);
    let ends = s.fields[0].flows[3];
    assert_eq!(
        (s.fields[0].places[ends.from], s.fields[0].places[ends.to]),
        ((30.0, -30.0), (30.0, 30.0))
    );
}

/// The maximum number of nodes in a scenario, and the minimum energy of a radio.
#[test]
fn bounds_themselves_are_allowed() {
    let text = format!(
        "[scenario]\n[radio]\ntopology = \"grid\"\nhops = 31\n\
         [energy]\nvoltage = 0.001\ntx = 0\nrx = 0.001\nidle = 0\nsleep = 0\n{ARM}"
    );
    let s = RadioScenario::parse("t.toml", &text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(s.fields[0].places.len(), 1024);
    let text = text.replace("grid", "cross").replace("31", "63");
    let s = RadioScenario::parse("t.toml", &text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(s.fields[0].places.len(), 127);
}

/// Too many positions are not examined further, since that would take a time that grows with
/// their square.
#[test]
fn too_many_positions_are_refused_at_once() {
    let places: Vec<String> = (0..2000).map(|i| format!("[{}, 0]", 90 * i)).collect();
    let text = format!(
        "[scenario]\n[radio]\ntopology = \"positions\"\npositions = [{}]\n\
         [[flow]]\nfrom = 0\nto = 1\n{ARM}",
        places.join(", ")
    );
    let error = RadioScenario::parse("t.toml", &text).unwrap_err();
    let messages: Vec<&str> = error.diagnostics().iter().map(|it| &*it.message).collect();
    assert_eq!(messages, ["2000 nodes are too many; 1024 at most"]);
}

#[test]
fn an_arm_changes_the_radios_that_it_has() {
    let text = format!(
        "[scenario]\n[radio]\ntopology = \"chain\"\nrange = 40\ncapture = 4\nmax_be = 8\n{ARM}\
         [[arm]]\nname = \"b\"\nradio = {{ carrier_sense = 50, max_be = 5, routing = \"static\" }}\n"
    );
    let s = RadioScenario::parse("t.toml", &text).unwrap_or_else(|e| panic!("{e}"));
    let [a, b] = &s.arms[..] else {
        panic!("two arms")
    };
    assert_eq!(a.radio, s.radio);
    assert_eq!((a.radio.carrier_sense_m, a.radio.mac.max_be), (80.0, 8));
    let mut same = b.radio.clone();
    assert_eq!((same.carrier_sense_m, same.mac.max_be), (50.0, 5));
    assert_eq!(same.routing, Routing::Static);
    same.carrier_sense_m = 80.0;
    same.mac.max_be = 8;
    same.routing = Routing::Aodv;
    assert_eq!(same, s.radio);
}

/// A preset is the MAC that the other keys change; an arm with another preset takes nothing from
/// the `[radio]` table's MAC.
#[test]
fn a_preset_of_the_mac() {
    let text = format!(
        "[scenario]\n[radio]\ntopology = \"chain\"\nqueue = 7\n{ARM}\
         [[arm]]\nname = \"b\"\nradio = {{ mac_preset = \"inetmanet-2011\", max_be = 6 }}\n\
         [[arm]]\nname = \"c\"\nradio = {{ mac_preset = \"802.15.4\", ack_wait = \"1 ms\" }}\n"
    );
    let s = RadioScenario::parse("t.toml", &text).unwrap_or_else(|e| panic!("{e}"));
    let macs: Vec<&MacModel> = s.arms.iter().map(|arm| &arm.radio.mac).collect();
    assert_eq!((macs[0].queue, macs[0].first_slot), (7, 0));
    let inetmanet = MacModel {
        max_be: 6,
        ..MacModel::inetmanet_2011()
    };
    assert_eq!(*macs[1], inetmanet);
    assert_eq!((inetmanet.header, inetmanet.ack_wait), (1, 560_000));
    let standard = MacModel {
        ack_wait: 1_000_000,
        ..MacModel::default()
    };
    assert_eq!(*macs[2], standard);
}

#[test]
fn runs_are_listed_and_selected() {
    let text = format!(
        "[scenario]\nseeds = 2\n[radio]\ntopology = \"chain\"\nhops = [2, 3]\nparallel = [1, 4]\n{ARM}\
         [[arm]]\nname = \"dca\"\n"
    );
    let s = RadioScenario::parse("t.toml", &text).unwrap_or_else(|e| panic!("{e}"));
    let ids: Vec<String> = s.runs().into_iter().map(|run| run.id).collect();
    assert_eq!(ids.len(), 16);
    assert_eq!(ids[0], "tcp/1/hops=2/flows=1");
    assert_eq!(ids[1], "dca/1/hops=2/flows=1");
    assert_eq!(ids[15], "dca/2/hops=3/flows=4");
    let filter = |arm: &str, cc: &str, seed: &str| Filter {
        arms: vec![arm.to_owned()],
        cc: vec![cc.to_owned()],
        seeds: vec![seed.to_owned()],
        ..Filter::default()
    };
    assert_eq!(s.select(&filter("d*", "newreno", "2")).unwrap().len(), 4);
    for (wanted, what) in [
        (
            filter("x", "*", "1"),
            "no arm of this scenario matches 'x'; there are: tcp, dca",
        ),
        (
            filter("*", "cubic", "1"),
            "no cc of this scenario matches 'cubic'; there are: newreno",
        ),
        (
            filter("*", "*", "3"),
            "no seed of this scenario matches '3'; there are: 1, 2",
        ),
    ] {
        assert_eq!(s.select(&wanted).unwrap_err().to_string(), what);
    }
}

#[test]
fn a_record_is_told_from_that_of_links_and_comes_back() {
    let run = RadioRun {
        id: "tcp/1".to_owned(),
        arm: "tcp".to_owned(),
        seed: 1,
        hops: Some(2),
        acks: 5,
        data_segments: 10,
        flows: vec![RadioFlowRecord::default()],
        ..RadioRun::default()
    };
    let report = RadioReport {
        schema: ackwise_scenario::record::SCHEMA,
        world: "radio".to_owned(),
        runs: vec![run],
        ..RadioReport::default()
    };
    let text = report.to_json().unwrap();
    assert_eq!(RadioReport::from_json(&text).unwrap(), Some(report.clone()));
    assert_eq!(RadioReport::from_json("{\"schema\": 1}").unwrap(), None);
    assert!(RadioReport::is_meant(&text));
    assert!(!RadioReport::is_meant("{\"schema\": 1}") && !RadioReport::is_meant("{"));
    let old = text.replace("\"schema\": 1", "\"schema\": 99");
    assert!(RadioReport::from_json(&old).is_err());
    let csv = report.runs_csv().unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0].split(',').count(), lines[1].split(',').count());
    assert_eq!(
        lines[1],
        ",tcp,1,2,1,0,0,0,0,0,10,0,5,0.5,0,0,0,0,0,0,0,0,0"
    );
}
