//! Tests of valid machine files, and of the errors for wrong ones.

use super::*;

const SMALL: &str = r#"
schema = "corun.machine/1"
name = "small"

[shape]
sockets = 2
cores-per-llc = 2
threads-per-core = 2
node-distance = [[10, 21], [21, 10]]

[clock]
ghz = 2.5

[latency]
dram-local = "70ns"
"#;

#[test]
fn a_file_gives_the_shape_and_lists_what_it_left_to_defaults() {
    let m = MachineModel::parse("small.toml", SMALL).unwrap();
    assert_eq!((m.machine.cpu_count(), m.machine.count(|c| c.node)), (8, 2));
    assert_eq!((m.machine.node_distance(0, 1), m.ghz, m.latency.dram_local_ns), (Some(21), 2.5, 70));
    assert!(m.assumed.contains(&"latency.dram-remote") && !m.assumed.contains(&"latency.dram-local"));
    assert!(m.assumed.contains(&"cache.llc") && m.power.is_none());
}

fn refusal(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from));
    MachineModel::parse("m.toml", &SMALL.replace(from, to)).unwrap_err().to_string()
}

#[test]
fn bad_input_is_one_sentence_with_file_and_line() {
    assert_eq!(refusal("sockets = 2", "sockets = 0"), "m.toml:6: sockets is 0; a machine needs at least 1");
    assert_eq!(
        refusal("\"70ns\"", "\"70\""),
        "m.toml:15: `70` is not a time with its unit, such as 500us, 10ms or 2s"
    );
    assert_eq!(refusal("ghz = 2.5", "ghz = 0"), "m.toml:12: ghz is 0.0; give a number from 0.01 to 20");
    assert!(refusal("sockets = 2", "sockets = 4000").contains("this makes 16000 CPUs; at most 8192"));
    assert!(refusal("sockets = 2", "sockets = 2000").contains("this makes 2000 NUMA nodes; at most 1024"));
    assert!(refusal("[[10, 21], [21, 10]]", "[[10]]").starts_with("m.toml:9: node-distance has 1 rows"));
    assert!(refusal("[[10, 21], [21, 10]]", "[[10, 5], [5, 10]]").contains("below 10"));
    assert!(refusal("[[10, 21], [21, 10]]", "[[10], [21, 10]]").contains("[0] has 1 numbers for 2 NUMA"));
    assert!(refusal("[[10, 21], [21, 10]]", "[[10, 90], [900, 10]]").contains("is 900; give 10 to 254"));
    assert!(refusal("ghz =", "gigahertz =").contains("unknown field `gigahertz`"));
    assert!(refusal("machine/1", "machine/7").starts_with("m.toml:2: schema is `corun.machine/7`"));
}

#[test]
fn noise_without_its_interval_is_refused_at_the_line_of_the_given_half() {
    let whole = "\n[costs]\nnoise = \"2ms\"\nnoise-every = \"580ms\"\n";
    let costs = MachineModel::parse("m.toml", &(SMALL.to_owned() + whole)).unwrap().costs;
    assert_eq!((costs.noise_ns, costs.noise_every_ns), (2_000_000, 580_000_000));
    for half in ["noise = \"2ms\"", "noise-every = \"580ms\"", "noise = \"2ms\"\nnoise-every = \"0\""] {
        let text = format!("{SMALL}\n[costs]\n{half}\n");
        let said = MachineModel::parse("m.toml", &text).unwrap_err().to_string();
        let what = "noise and noise-every are how long and how often; give both or neither";
        assert_eq!(said, format!("m.toml:18: {what}"), "{half}");
    }
}

#[test]
fn a_machine_may_name_its_linux_if_that_is_modelled() {
    let with =
        |release: &str| MachineModel::parse("m.toml", &format!("{SMALL}\n[kernel]\nlinux = \"{release}\"\n"));
    assert_eq!(MachineModel::parse("m.toml", SMALL).unwrap().linux, None);
    assert_eq!(with("2.6.32").unwrap().linux, Some(Linux(2, 6)));
    assert_eq!(with("3.14.8").unwrap().linux, Some(Linux(3, 14)));
    let said = with("4.4").unwrap_err().to_string();
    assert!(
        said.starts_with("m.toml:18: only the placement and balancing of 2.6.32, 3.8 and 3.14"),
        "{said}"
    );
}

#[test]
fn noise_that_leaves_little_time_is_refused() {
    let with = |noise: &str, every: &str| {
        let text = format!("{SMALL}\n[costs]\nnoise = \"{noise}\"\nnoise-every = \"{every}\"\n");
        MachineModel::parse("m.toml", &text)
    };
    assert!(with("1ms", "2ms").is_ok());
    let said = with("10ms", "1us").unwrap_err().to_string();
    assert!(said.starts_with("m.toml:18: noise lasts longer than half of noise-every"), "{said}");
}

#[test]
fn with_two_sections_that_have_a_key_of_one_name_the_wrong_one_is_named() {
    let said = refusal("dram-local = \"70ns\"", "l2 = \"4\"\n\n[cache]\nl2 = \"256KiB\"");
    assert!(said.starts_with("m.toml:15: `4` is not a time"), "{said}");
    let said = refusal("[latency]", "[cache]\nl2 = \"256KiB\"\n\n[latency]\nl2 = \"4\"");
    assert!(said.starts_with("m.toml:18: `4` is not a time"), "{said}");
}

#[test]
fn figures_that_no_machine_has_are_refused_where_they_stand() {
    let said = refusal("\"70ns\"", "\"900ns\"");
    assert!(said.starts_with("m.toml:15: dram-local is 900 ns and dram-remote 130 ns"), "{said}");
    let said = refusal("\"70ns\"", "\"70h\"");
    assert_eq!(said, "m.toml:15: `70h` is longer than 1.00 s, which dram-local never is; give less");
    let said = refusal("[latency]", "[costs]\nswitch = \"100ms\"\n\n[latency]");
    assert_eq!(said, "m.toml:15: `100ms` is longer than 10.0 ms, which switch never is; give less");
    let said = refusal("ghz = 2.5", "tick = \"10ns\"");
    assert_eq!(said, "m.toml:12: a tick below 1us makes no sense; give a longer one");
    let said = refusal("ghz = 2.5", "tick = \"1h\"");
    assert_eq!(said, "m.toml:12: `1h` is longer than 1.00 s, which tick never is; give less");
    let said = refusal("[latency]", "[memory]\nnode-bandwidth = \"1B/s\"\n\n[latency]");
    assert!(said.starts_with("m.toml:15: a node-bandwidth below 1MB/s makes no sense"), "{said}");
    let said = refusal("[latency]", "[memory]\nlink-bandwidth = \"1B/s\"\n\n[latency]");
    assert!(said.starts_with("m.toml:15: a link-bandwidth below 1MB/s makes no sense"), "{said}");
    let memory = |keys: &str| refusal("[latency]", &format!("[memory]\n{keys}\n\n[latency]"));
    let together = "m.toml:15: banks and closed-rows go together; give both or neither";
    assert_eq!([memory("banks = 32"), memory("closed-rows = 0.5")], [together; 2]);
    assert_eq!(memory("banks = 0\nclosed-rows = 0.5"), "m.toml:15: banks is 0; give a number from 1 to 4096");
    assert_eq!(
        memory("banks = 8\nclosed-rows = 1.5"),
        "m.toml:16: closed-rows is 1.5; give a share from 0.01 to 1"
    );
}
