//! Proofs that a machine has read. Coq checks `tests/proofs/*.v`: the theorems of the privacy contract, for a machine
//! that makes the moves of the library. `docs/privacy/proofs.md` lists what they assume, and where the code makes
//! it true.

use crate::support::{have, root};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The theorems that the contract names.
const CONTRACT: [&str; 12] = [
    "theorem_P",
    "theorem_U",
    "theorem_S",
    "theorem_L",
    "theorem_C",
    "theorem_M",
    "theorem_J",
    "theorem_zcdp",
    "each_id_opens_once",
    "losses_add_up",
    "no_period_is_forgotten",
    "signed_is_laplace",
];

/// What makes a statement true without a proof.
const UNPROVED: [&str; 11] = [
    "Admitted",
    "admit",
    "give_up",
    "Abort",
    "Axiom",
    "Axioms",
    "Parameter",
    "Parameters",
    "Conjecture",
    "bypass_check",
    "Unset",
];

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '\'').filter(|word| !word.is_empty())
}

/// The text without comments, which may contain others.
fn without_comments(text: &str) -> String {
    let (mut code, mut depth, mut rest) = (String::new(), 0, text);
    while let Some(c) = rest.chars().next() {
        let length = if rest.starts_with("(*") {
            depth += 1;
            2
        } else if rest.starts_with("*)") {
            depth -= 1;
            2
        } else {
            if depth == 0 {
                code.push(c);
            }
            c.len_utf8()
        };
        rest = &rest[length..];
    }
    code
}

/// The proofs by the name of their file, without comments.
fn proofs() -> BTreeMap<String, String> {
    let files = std::fs::read_dir(root().join("tests/proofs")).unwrap().map(|entry| entry.unwrap().path());
    let proofs = files.filter(|path| path.extension().is_some_and(|e| e == "v")).map(|path| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, without_comments(&std::fs::read_to_string(path).unwrap()))
    });
    proofs.collect()
}

/// The names that follow one of these words at the beginning of a line.
fn declared(proof: &str, kinds: &[&str]) -> Vec<String> {
    let declares = |line: &str| {
        let (kind, rest) = line.trim_start().split_once(' ')?;
        let names = rest.split([':', '(']).next()?;
        kinds.contains(&kind).then(|| words(names).map(str::to_owned).collect::<Vec<_>>())
    };
    proof.lines().filter_map(declares).flatten().collect()
}

/// A theorem's name is the first word; what follows are its variables.
fn theorems(proof: &str) -> Vec<String> {
    let name = |line: &str| {
        let (kind, rest) = line.trim_start().split_once(' ')?;
        ["Theorem", "Corollary", "Example"].contains(&kind).then(|| words(rest).next().unwrap().to_owned())
    };
    proof.lines().filter_map(name).collect()
}

/// The files in an order in which each comes after those that it requires.
fn in_order(proofs: &BTreeMap<String, String>) -> Vec<String> {
    let mut order: Vec<String> = Vec::new();
    while order.len() < proofs.len() {
        let required = |proof: &str| -> Vec<String> {
            let lines = proof.lines().filter_map(|line| line.strip_prefix("Require Import "));
            lines.flat_map(words).map(str::to_owned).collect()
        };
        let next = proofs
            .iter()
            .find(|(name, proof)| !order.contains(name) && required(proof).iter().all(|name| order.contains(name)));
        order.push(next.expect("files require each other in a circle").0.clone());
    }
    order
}

fn coqc(directory: &Path, name: &str) -> Output {
    let mut command = Command::new("coqc");
    command.current_dir(directory).args(["-R", ".", "", &format!("{name}.v")]).output().unwrap()
}

/// What Coq says about this file, which it must accept.
fn accepted(directory: &Path, name: &str) -> String {
    let Output { status, stdout, stderr } = coqc(directory, name);
    assert!(status.success(), "{name}.v: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

fn directory(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// The axioms that these theorems use, of all together.
fn axioms(directory: &Path, name: &str, imports: &str, theorems: &[String]) -> BTreeSet<String> {
    let these: Vec<_> = theorems.iter().map(|theorem| format!("@{theorem}")).collect();
    let file = format!("{imports}\nDefinition these := ({}).\nPrint Assumptions these.\n", these.join(", "));
    std::fs::write(directory.join(format!("{name}.v")), file).unwrap();
    let said = accepted(directory, name);
    let axioms =
        said.lines().filter(|line| !line.starts_with(' ') && !line.ends_with(':') && !line.starts_with("Closed"));
    axioms.map(|line| line.split([' ', ':']).next().unwrap().to_owned()).collect()
}

/// The theorems of the contract are there, and nothing in the files is admitted.
#[test]
fn the_proofs_are_complete() {
    let proofs = proofs();
    for (name, proof) in &proofs {
        let unproved: Vec<_> = words(proof).filter(|word| UNPROVED.contains(word)).collect();
        assert!(unproved.is_empty(), "{name}.v: {unproved:?}");
        // A variable is no statement, so it cannot be an assumption.
        for line in proof.lines().filter(|line| line.trim_start().starts_with("Variable")) {
            let types = line.replace("->", "");
            assert!(!types.contains(['=', '<', '>', '~']) && !types.contains("forall"), "{name}: {line}");
        }
    }
    let proved: Vec<_> = proofs.values().flat_map(|proof| theorems(proof)).collect();
    for name in CONTRACT {
        assert!(proved.iter().any(|theorem| theorem == name), "no {name}");
    }
}

#[test]
#[ignore = "half a minute"]
fn a_machine_has_read_the_proofs() {
    if !have("coqc") {
        return;
    }
    let (directory, proofs) = (directory("proofs"), proofs());
    let order = in_order(&proofs);
    for name in &order {
        let file = format!("{name}.v");
        std::fs::copy(root().join("tests/proofs").join(&file), directory.join(&file)).unwrap();
        accepted(&directory, name);
    }
    let proved: Vec<_> = proofs.values().flat_map(|proof| theorems(proof)).collect();

    // Coq's reals have axioms. The proofs use no others.
    let reals = ["exp_increasing", "completeness", "exp_plus"].map(str::to_owned);
    let of_the_reals = axioms(&directory, "Reals_", "Require Import Reals.", &reals);
    let imports = format!("Require Import {}.", order.join(" "));
    let used = axioms(&directory, "Assumptions_", &imports, &proved);
    println!("{} theorems; their assumptions:", proved.len());
    used.iter().for_each(|axiom| println!("  {axiom}"));
    assert!(!used.is_empty() && used.is_subset(&of_the_reals), "{used:?} are not all of {of_the_reals:?}");

    // What the theorems of the contract assume is what the page lists, and variables.
    let listed: BTreeSet<_> = hypotheses_of_the_page();
    let variables: BTreeSet<_> =
        proofs.values().flat_map(|proof| declared(proof, &["Variable", "Variables"])).collect();
    let about = CONTRACT.map(|name| format!("About {name}.\n")).concat();
    std::fs::write(directory.join("About_.v"), format!("{imports}\n{about}")).unwrap();
    let said = accepted(&directory, "About_").replace('\n', " ");
    for name in CONTRACT {
        let arguments = said.split(&format!(" Arguments {name} ")).nth(1).unwrap();
        let arguments = arguments.split(&format!("{name} is ")).next().unwrap();
        let known = |word: &&str| {
            listed.contains(*word)
                || variables.contains(*word)
                || word.ends_with("_scope")
                || ["n", "l", "S", "a", "b", "x", "events", "_"].contains(word)
        };
        let unknown: Vec<_> = words(arguments).filter(|word| !known(word)).collect();
        assert!(unknown.is_empty(), "{name} assumes {unknown:?}");
    }
}

/// The checks above reject what is not proved.
#[test]
fn what_is_not_proved_is_seen() {
    assert_eq!(without_comments("Lemma (* Axiom (* inner *) Admitted *)a."), "Lemma a.");
    assert!(words("Proof. Admitted.").any(|word| UNPROVED.contains(&word)));
    if !have("coqc") {
        return;
    }
    let directory = directory("unproved");
    let axiom = "Section S. Variable T : Prop. End S.\nDeclare Module M.\nAxiom lie : forall n : nat, n = 0.\n";
    std::fs::write(directory.join("Lie.v"), axiom.replace("Declare Module M.\n", "")).unwrap();
    accepted(&directory, "Lie");
    assert_eq!(
        axioms(&directory, "Uses", "Require Import Lie.", &["lie".to_owned()]),
        BTreeSet::from(["lie".to_owned()])
    );
    std::fs::write(directory.join("False.v"), "Lemma wrong : 0 = 1. Proof. reflexivity. Qed.\n").unwrap();
    assert!(!coqc(&directory, "False").status.success());
}

/// The rows of the table with this heading in the pages about the contract, cell by cell.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let pages = ["docs/privacy/proofs.md", "docs/theory/private-features.md"];
    let page = pages.map(|page| std::fs::read_to_string(root().join(page)).unwrap()).concat();
    let table = page.split(heading).nth(1).unwrap_or_else(|| panic!("no table: {heading}"));
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

const HYPOTHESES: &str = "| hypothesis | it says | theorems | the code | its violation is seen by |";
const RULES: &str = "| rule | it says | the code | its violation is seen by |";
const JOINT_RULES: &str = "| rule of Theorem J | it says | the code | its violation is seen by |";
const STEPS: &str = "| step over restarts | it says | the code | its violation is seen by |";

/// What is in backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn hypotheses_of_the_page() -> BTreeSet<String> {
    rows(HYPOTHESES).iter().flat_map(|row| quoted(&row[0]).into_iter().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// All sources in these directories, and the proofs.
fn sources(directories: &[&str]) -> String {
    let mut text = String::new();
    let mut left: Vec<PathBuf> = directories.iter().map(|name| root().join(name)).collect();
    while let Some(path) = left.pop() {
        for entry in std::fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|e| e == "rs" || e == "v") {
                text += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    text
}

#[test]
fn every_hypothesis_has_its_place_in_the_code() {
    let proofs = proofs();
    let all = |kinds: &[&str]| proofs.values().flat_map(|proof| declared(proof, kinds)).collect::<BTreeSet<_>>();
    assert_eq!(
        hypotheses_of_the_page(),
        all(&["Hypothesis", "Hypotheses"]),
        "docs/privacy/proofs.md and tests/proofs/*.v differ"
    );

    // The rules of the transition systems are assumptions about the code too.
    for (file, kind, table) in [
        ("Machine", "Inductive move :=", RULES),
        ("TheoremJ", "Inductive move :=", JOINT_RULES),
        ("Restarts", "Inductive event :=", STEPS),
    ] {
        let rules = proofs[file].split(kind).nth(1).unwrap().split("\n\n").next().unwrap();
        let rules =
            rules.split('|').skip(1).map(|rule| words(rule).next().unwrap().to_owned()).collect::<BTreeSet<_>>();
        let names = |row: &Vec<String>| quoted(&row[0]).into_iter().map(str::to_owned).collect::<Vec<_>>();
        let listed = rows(table).iter().flat_map(names).collect();
        assert_eq!(rules, listed, "docs/privacy/proofs.md and the rules of tests/proofs/{file}.v differ");
    }

    // The places and the tests exist.
    let tests = sources(&["tests", "src"]);
    let patches = std::fs::read_to_string(root().join("tests/hooked/faults.txt")).unwrap();
    let exists = |name: &str| {
        let declared = |before: &str| tests.contains(&format!("{before}{name}"));
        let patched = patches.lines().any(|line| line.starts_with(&format!("{name}: ")));
        declared("fn ") || declared("Example ") || tests.contains(&format!("    {name},\n")) || patched
    };
    for (rows, code) in [(rows(HYPOTHESES), 3), (rows(RULES), 2), (rows(JOINT_RULES), 2), (rows(STEPS), 2)] {
        for row in rows {
            assert_eq!(row.len(), code + 2, "{row:?}");
            let links = row[code].split("](../../").skip(1).map(|rest| rest.split(')').next().unwrap());
            let files: Vec<_> = links.map(|file| std::fs::read_to_string(root().join(file)).expect(file)).collect();
            assert!(!files.is_empty() || row[code].starts_with('('), "no place in the code: {row:?}");
            let names = quoted(&row[code]).into_iter().filter(|name| !name.contains('/'));
            names.for_each(|name| {
                let last = name.rsplit("::").next().unwrap();
                assert!(files.iter().any(|file| words(file).any(|word| word == last)), "no {name}: {row:?}");
            });
            let seen = quoted(&row[code + 1]);
            assert!(!seen.is_empty() || row[code + 1].starts_with('('), "no test: {row:?}");
            seen.iter().for_each(|name| assert!(exists(name), "no test or fault {name}: {row:?}"));
        }
    }
}

fn integers(source: &Path) -> Output {
    Command::new("python3").arg(root().join("tests/proofs/sampler.py")).arg(source).output().unwrap()
}

/// For every input: by intervals, once for each entry of the sampler's table.
#[test]
fn the_samplers_integers_stay_in_their_bounds() {
    if !have("python3") {
        return;
    }
    let Output { status, stdout, stderr } = integers(&root().join("src/noise"));
    print!("{}", String::from_utf8_lossy(&stdout));
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
}

/// The check fails if a constant is wrong, a shift loses bits, or a word overflows.
#[test]
#[ignore = "ten seconds"]
fn wrong_integers_of_the_sampler_are_seen() {
    if !have("python3") {
        return;
    }
    let directory = directory("sampler");
    let [code, table] =
        ["exponential.rs", "logarithms.rs"].map(|f| std::fs::read_to_string(root().join("src/noise").join(f)).unwrap());
    for (right, wrong) in [
        ("const WINDOW: u128 = 128;", "const WINDOW: u128 = 64;"),
        ("i64 = i64::MAX / 3;", "i64 = i64::MAX / 4;"),
        ("let z1 = z << 7;", "let z1 = z << 9;"),
        ("(high_signed(z1, THIRD) >> 8)", "(high_signed(z1, THIRD) >> 7)"),
        ("const LN_2: u64 = 0xb172_17f7_d1cf_79ab;", "const LN_2: u64 = 0xb172_17f7_d1cf_79ac;"),
        ("twice_atanh(1025)", "twice_atanh(1024)"),
    ] {
        assert!(code.contains(right) || table.contains(right), "{right}");
        std::fs::write(directory.join("exponential.rs"), code.replacen(right, wrong, 1)).unwrap();
        std::fs::write(directory.join("logarithms.rs"), table.replacen(right, wrong, 1)).unwrap();
        assert!(!integers(&directory).status.success(), "{wrong}");
    }
}
