//! Mistakes in scenarios of radio: each is found, where it stands.

use ackwise_scenario::radio::RadioScenario;

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
    for (text, said) in [
        (
            format!("{places}positions = [[0, 0], [30, 0], [90, 0]]\n{flow}{ARM}"),
            "t.toml:6:1: there is no way from node 0 to node 2: nodes 1 and 2, the nearest across the gap, are 60.0 m apart, and a radio reaches 50 m",
        ),
        (
            format!("{places}positions = [[0, 0], [30], [60, 0]]\n{flow}{ARM}"),
            "t.toml:5:22: the position of node 1 is missing: it is a pair of numbers like [30, 0], metres",
        ),
        (
            format!("{places}positions = [[0, 0], [30, 0]]\n{flow}{ARM}"),
            "t.toml:8:6: node 2 has no position; 'positions' has 2 nodes, from 0",
        ),
        (
            format!("{places}{flow}{ARM}"),
            "t.toml:4:12: 'positions' is missing: write positions = [[0, 0], [30, 0]], metres, a pair for each node",
        ),
        (
            format!("{chain}spacing = 60\n{ARM}"),
            "t.toml:5:11: nodes 0 and 1 are 60 m apart, and a radio reaches 50 m: out of range",
        ),
        (
            format!("{chain}hops = [2, 64]\n{ARM}"),
            "t.toml:5:12: the hop limit: 'hops' lies between 1 and 63, not 64",
        ),
        (
            format!("{chain}[energy]\ntx = -17\n{ARM}"),
            "t.toml:6:6: 'tx' is negative: -17; it lies between 0 and 10000 mA",
        ),
        (
            format!("{chain}{ARM}model = {{ segment = \"80 B\" }}\n"),
            "t.toml:7:9: a segment of 80 B makes a frame of 131 B, and a frame has 127 B at most; lower 'segment' by 4 B",
        ),
        (
            format!("{chain}min_be = 6\n{ARM}"),
            "t.toml:5:10: 'min_be' (6) is above 'max_be' (5)",
        ),
        (
            chain.to_owned(),
            "t.toml:1:1: nothing is compared; add [[arm]] with a name",
        ),
    ] {
        assert_eq!(mistake(&text), said, "{text}");
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
        "t.toml:6:1: from node 0 to node 65 are 65 hops; the hop limit is 63"
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
