//! What may be read of a handle, and of a node, in the other languages, from src/tables/report.rs and node.rs.

use super::{Language, Member, RUST_HEAD, Tables, camel, growing, java, layout, show, size, wrap};

/// A struct of the table.
pub struct Report {
    docs: Vec<&'static str>,
    rust: &'static str,
    c: &'static str,
    rows: Vec<Row>,
}

/// A field in the other languages.
struct Row {
    docs: Vec<&'static str>,
    name: &'static str,
    in_c: &'static str,
    /// u32, u64, f64 or bool; Milliseconds; Text; or what has names in the other languages, such as Policy.
    kind: &'static str,
    since: &'static str,
    /// The kind, name and help of its metric.
    metric: Option<[&'static str; 3]>,
}

macro_rules! reports {
    ($(
        $(#[doc = $about:literal])*
        $report:ident as $c:ident from $reading:ident {$(
            $(#[doc = $doc:literal])*
            $name:ident: $type:ty = $source:expr, $since:literal
                $(, [$in_c:ident])? $(, $kind:ident $metric:literal $help:literal)?
            $({$(
                $(#[doc = $of_part:literal])*
                $part:ident: $part_type:ident = $value:expr $(, $part_kind:ident $part_metric:literal $part_help:literal)?;
            )*})?;
        )*}
    )*) => {
        pub fn in_order_of_rust() -> Vec<Report> {
            vec![$(Report {
                docs: vec![$($about),*],
                rust: stringify!($report),
                c: stringify!($c),
                rows: [$({
                    let parts: Vec<Row> = vec![$($(Row {
                        docs: vec![$($of_part),*],
                        name: stringify!($part),
                        in_c: stringify!($part),
                        kind: stringify!($part_type),
                        since: $since,
                        metric: [$([stringify!($part_kind), $part_metric, $part_help])?].first().copied(),
                    },)*)?];
                    match parts.is_empty() {
                        true => vec![Row {
                            docs: vec![$($doc),*],
                            name: stringify!($name),
                            in_c: [$(stringify!($in_c),)? stringify!($name)][0],
                            kind: stringify!($type),
                            since: $since,
                            metric: [$([stringify!($kind), $metric, $help])?].first().copied(),
                        }],
                        false => parts,
                    }
                }),*].into_iter().flatten().collect(),
            }),*]
        }
    };
}

mod handle {
    use super::{Report, Row};
    include!("../../src/tables/report.rs");
}

mod node {
    use super::{Report, Row};
    include!("../../src/tables/node.rs");
}

/// The structs, with their rows in the order of C.
pub fn reports() -> Vec<Report> {
    let mut reports = handle::in_order_of_rust();
    for report in &mut reports {
        report.rows.sort_by_key(|row| FIRST.iter().position(|name| *name == row.name).unwrap_or(FIRST.len()));
    }
    reports.extend(node::in_order_of_rust());
    reports
}

impl Row {
    /// The type in C.
    fn c(&self) -> &'static str {
        match self.kind {
            "u64" | "Milliseconds" => "u64",
            "f64" => "f64",
            "Text" => "[c_char; 256]",
            _ => "u32",
        }
    }

    /// Its documentation.
    fn text(&self, tables: &Tables, language: Language) -> String {
        let text = tables.text(&self.docs, language);
        match (self.kind, language) {
            ("Policy", Language::C) => format!("{text} Its number, DPB_POLICY_..."),
            ("NodeState", Language::C) => format!("{text} DPB_NODE_..."),
            ("Text", Language::C) => format!("{text} Ends with NUL."),
            ("Milliseconds", Language::C | Language::Python) => format!("{text} In milliseconds."),
            ("bool", Language::C) if text.starts_with("Whether") => format!("1 or 0: w{}", &text[1..]),
            _ => text,
        }
    }

    /// Its name in Go or Java, whose times have no unit.
    fn timed(&self, camel: fn(&str) -> String) -> String {
        camel(if self.kind == "Milliseconds" { self.name.trim_end_matches("_ms") } else { self.name })
    }

    fn go(&self) -> &'static str {
        match self.kind {
            "u32" => "uint32",
            "u64" => "uint64",
            "f64" => "float64",
            "Milliseconds" => "time.Duration",
            "Text" => "string",
            kind => kind,
        }
    }

    /// The name of its metric.
    fn metric(&self) -> Option<(&'static str, String, &'static str)> {
        let [kind, name, help] = self.metric?;
        Some((kind, if kind == "counter" { format!("{name}_total") } else { name.to_owned() }, help))
    }
}

impl Report {
    /// Its names in C and in Go.
    fn named(&self) -> (&'static str, &'static str) {
        (self.c, if self.is_arm() { "Arm" } else { self.rust })
    }

    fn is_arm(&self) -> bool {
        self.rust == "ArmReport"
    }

    /// The rows for Go and Python, where the policy comes first.
    fn sorted(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by_key(|row| row.kind != "Policy");
        rows
    }

    fn members(&self, tables: &Tables) -> Vec<Member> {
        let size = format!("sizeof({}). You set it, so that the struct can grow.", self.named().0);
        let size = (!self.is_arm()).then(|| Member::new(size, "struct_size", "u32", "0.1"));
        let member = |row: &Row| Member::new(row.text(tables, Language::C), row.in_c, row.c(), row.since);
        layout(size.into_iter().chain(self.rows.iter().map(member)))
    }

    /// Its size in C.
    pub fn size(&self, tables: &Tables) -> (&'static str, usize) {
        let size = if self.is_arm() { SIZE_OF_ARM } else { size(&self.members(tables)) };
        (self.named().0, size)
    }

    /// Its struct for C.
    fn in_c(&self, tables: &Tables) -> String {
        let (c, members, size) = (self.c, self.members(tables), self.size(tables).1);
        let mut docs = tables.text(&self.docs, Language::C);
        let mut structure = show(&members);
        let mut derived = "Clone, Copy";
        let grows = if self.is_arm() {
            derived = "Clone, Copy, Default";
            docs += &format!(
                " {SIZE_OF_ARM} bytes in every version: an array of them has no struct_size, so there are spare fields."
            );
            let spare = (SIZE_OF_ARM - super::size(&members)) / 8;
            structure += &format!("    /// 0, for later versions.\n    pub spare: [f64; {spare}],\n");
            String::new()
        } else {
            growing(c, &members, "numbers")
        };
        format!(
            r#"{}#[repr(C)]
#[derive({derived})]
pub struct {c} {{
{structure}}}

const _: () = assert!(size_of::<{c}>() == {size});

{grows}"#,
            wrap(&docs, "/// ", 118)
        )
    }

    /// Its struct for Go, what reads it from C, and what writes it to a log.
    fn in_go(&self, tables: &Tables) -> String {
        let (c, go) = self.named();
        let about = match go {
            "Report" => {
                "Report holds the public state of a bandit: released values and public counts. You may publish it.\n\nWith \
                 [Config.RewardWindow] the number of updates would reveal rewards. There Answered counts decisions whose \
                 window is over, and Pending counts those whose window is not, with or without a reward."
            }
            "Arm" => "Arm holds the public state of one arm. You may publish it.",
            "Verdict" => {
                "Verdict is what a test of arms says, made of released values and public counts. You may publish it."
            }
            "NodeReport" => "NodeReport is what anybody may know of a [FleetNode].",
            "NodeDiagnostics" => {
                "NodeDiagnostics has counts of rewards that travel. They are NOT private: a reward is a click. Show them \
                 to operators only."
            }
            _ => {
                "Diagnostics has counts of refused calls, and warnings from rewards. They are NOT private: a duplicate \
                 reveals a click. Show them to operators only."
            }
        };
        let rows = self.sorted();
        let longest = rows.iter().map(|row| row.timed(camel).len()).max().unwrap() + 1;
        let (mut structure, mut read, mut logged) = (String::new(), String::new(), String::new());
        for row in rows {
            let (name, of) = (row.timed(camel), row.go());
            structure += &format!("{}\t{name} {of}\n", wrap(&row.text(tables, Language::Go), "\t// ", 118));
            let value = match of {
                "bool" => format!("c.{} != 0", row.in_c),
                "string" => format!("C.GoString(&c.{}[0])", row.in_c),
                "time.Duration" => format!("{of}(c.{}) * time.Millisecond", row.in_c),
                _ => format!("{of}(c.{})", row.in_c),
            };
            read += &format!("\t\t{:<longest$} {value},\n", format!("{name}:"));
            let log = match of {
                _ if IDENTIFYING.contains(&row.name) => format!("String(\"{}\", exact(r.{name}).String())", row.name),
                "uint32" => format!("Uint64(\"{}\", uint64(r.{name}))", row.name),
                "uint64" => format!("Uint64(\"{}\", r.{name})", row.name),
                "float64" => format!("Any(\"{}\", finite(r.{name}).value())", row.name),
                "bool" => format!("Bool(\"{}\", r.{name})", row.name),
                _ => format!("String(\"{}\", r.{name}.String())", row.name),
            };
            logged += &format!("\t\tslog.{log},\n");
        }
        let about = wrap(about, "// ", 118);
        let mut all = format!(
            "\n{about}type {go} struct {{\n{structure}}}\n\nfunc {}{}Of(c *C.{c}) {go} {{\n\treturn {go}{{\n{read}\t}}\n}}\n",
            go[..1].to_lowercase(),
            &go[1..]
        );
        if ["Report", "Arm", "Verdict"].contains(&go) {
            all += &format!(
                "\n// LogValue groups the fields, for log/slog.\nfunc (r {go}) LogValue() slog.Value {{\n\treturn \
                 slog.GroupValue(\n{logged}\t)\n}}\n"
            );
        }
        all
    }

    /// Its class for Python.
    fn in_python(&self, tables: &Tables) -> String {
        let about = match self.rust {
            "Report" => "The public state of a bandit: released values and counts. You may publish it.",
            "Verdict" => "What a test of arms says, made of released values and counts. You may publish it.",
            "NodeReport" => "What anybody may know of a node.",
            "NodeDiagnostics" => {
                "Counts of rewards that travel, for the operator only. NOT private: a reward is a click."
            }
            _ => "Counts of refused calls, for the operator only. NOT private: a duplicate reveals a click.",
        };
        let (mut structure, mut read) = (String::new(), String::new());
        for row in self.sorted() {
            let (name, c) = (row.name, format!("c.{}", row.in_c));
            let (of, value) = match row.kind {
                "u32" | "u64" | "Milliseconds" => ("int", c),
                "f64" => ("float", c),
                "Policy" => ("str", format!("POLICY_NAMES.get({c}, str({c}))")),
                "Text" => ("str", format!("words({c})")),
                kind => (kind, format!("{kind}({c})")),
            };
            let text = wrap(&row.text(tables, Language::Python), "    ", 116);
            structure += &format!("    {name}: {of}\n    \"\"\"{}\"\"\"\n", text.trim());
            read += &format!("            {name}={value},\n");
        }
        if self.rust == "Verdict" {
            structure += "    text: str\n    \"\"\"The verdict in words, which str() returns.\"\"\"\n\n    def __str__(self) -> str:\n        \
                          return self.text\n";
            read += "            text=verdict_text(c),\n";
        }
        let class = self.rust;
        format!(
            "\n\n@dataclass(frozen=True)\nclass {class}:\n    \"\"\"{about}\"\"\"\n\n{structure}\n    @classmethod\n    def \
             _of(cls, c: Any) -> {class}:\n        return cls(\n{read}        )\n"
        )
    }

    /// Its record for Java.
    fn in_java(&self, tables: &Tables) -> String {
        let (c, class) = self.named();
        let about = match class {
            "Report" => {
                "The public state of a bandit: released values and public counts. You may publish it.\n\nWith \
                 Config.rewardWindow the number of updates would reveal rewards. There answered counts decisions whose \
                 window is over, and pending those whose window is not, with or without a reward."
            }
            "Arm" => "The public state of one arm. You may publish it.",
            "Verdict" => "What a test of arms says, made of released values and public counts. You may publish it.",
            "NodeReport" => "What anybody may know of a {@link FleetNode}.",
            "NodeDiagnostics" => {
                "Counts of rewards that travel. They are NOT private: a reward is a click. Show them to operators only."
            }
            _ => {
                "Counts of refused calls, and warnings from rewards. They are NOT private: a duplicate reveals a click. \
                 Show them to operators only."
            }
        };
        let (mut texts, mut components, mut read) = (String::new(), Vec::new(), Vec::new());
        for row in self.sorted() {
            let name = row.timed(java::camel);
            let at = format!("Native.{c}.{}", row.in_c);
            let number = format!("c.get(JAVA_INT, {at})");
            let (of, value) = match row.kind {
                "u32" => ("int", number),
                "u64" => ("long", format!("c.get(JAVA_LONG, {at})")),
                "Milliseconds" => ("Duration", format!("Duration.ofMillis(c.get(JAVA_LONG, {at}))")),
                "Text" => ("String", format!("c.getString({at})")),
                "f64" => ("double", format!("c.get(JAVA_DOUBLE, {at})")),
                "bool" => ("boolean", format!("{number} != 0")),
                "Warnings" => ("Set<Warning>", format!("Warning.of({number})")),
                kind => (kind, format!("{kind}.of({number})")),
            };
            texts += &format!("@param {name} {}\n\n", row.text(tables, Language::Java));
            components.push(format!("{of} {name}"));
            read.push(value);
        }
        let mut more = String::new();
        if class == "Verdict" {
            texts += "@param text the verdict in words";
            components.push("String text".to_owned());
            read.push("Bandit.words(c)".to_owned());
            more =
                "\n    /** Returns the verdict in words. */\n    @Override\n    public String toString() {\n        \
                    return text;\n    }\n"
                    .to_owned();
        }
        let about = java::javadoc(&format!("{about}\n\n{}", texts.trim_end()), "").replace("<p>@param", "@param");
        let uses = |of: &str| components.iter().any(|component| component.starts_with(of));
        let duration = if uses("Duration") { "import java.time.Duration;\n" } else { "" };
        let set = if uses("Set") { "import java.util.Set;\n" } else { "" };
        let import = |layout: &str| {
            let used = read.iter().any(|value| value.contains(layout));
            if used { format!("import static java.lang.foreign.ValueLayout.{layout};\n") } else { String::new() }
        };
        let imports: String = ["JAVA_DOUBLE", "JAVA_INT", "JAVA_LONG"].iter().map(|layout| import(layout)).collect();
        let (components, read) = (components.join(",\n        "), read.join(",\n                "));
        format!(
            "\n{imports}\nimport java.lang.foreign.MemorySegment;\n{duration}{set}\n{about}public record {class}(\n        \
             {components}) {{\n    static {class} of(MemorySegment c) {{\n        return new {class}(\n                \
             {read});\n    }}\n{more}}}\n"
        )
    }

    /// The metrics of C++.
    fn metrics_of_cpp(&self) -> String {
        let mut lines = String::new();
        for row in &self.rows {
            let Some((kind, name, help)) = row.metric() else { continue };
            let indent = match self.rust {
                "Diagnostics" => "      ",
                "NodeReport" | "NodeDiagnostics" => "  ",
                _ => "    ",
            };
            let (call, field) = match self.rust {
                "Report" => (format!("of_report(\"{name}\", \"{kind}\""), "Report"),
                "ArmReport" => (format!("of_arms(\"{name}\""), "Arm"),
                "Verdict" => (format!("of_verdicts(\"{name}\""), "Verdict"),
                "NodeReport" => (format!("of_report(\"{name}\", \"{kind}\""), "NodeReport"),
                "NodeDiagnostics" => (format!("of_rewards(\"{name}\", \"{kind}\""), "NodeDiagnostics"),
                _ => (format!("of_refusals(\"{name}\""), "Diagnostics"),
            };
            let scale = if row.kind == "Milliseconds" { ", 1e-3" } else { "" };
            lines += &format!("{indent}{call}, \"{help}\", &{field}::{}{scale});\n", row.in_c);
        }
        lines
    }

    /// The metrics of Java.
    fn metrics_of_java(&self) -> String {
        let mut lines = String::new();
        for row in &self.rows {
            let Some([kind, metric, help]) = row.metric else { continue };
            let value = format!("of.{}()", row.timed(java::camel));
            let value = match row.kind {
                "bool" => format!("{value} ? 1 : 0"),
                "Milliseconds" => format!("{value}.toMillis() / 1e3"),
                "Duty" | "TestState" => format!("{value}.ordinal()"),
                _ => value,
            };
            let line = format!("            {kind}(\"{metric}\", \"{help}\", of -> {value})");
            let broken = format!(
                "            {kind}(\n                    \"{metric}\",\n                    \"{help}\",\n                    \
                 of -> {value})"
            );
            lines += &format!("{},\n", if line.len() < 120 { line } else { broken });
        }
        if self.rust == "Report" { lines } else { lines.trim_end_matches(",\n").to_owned() + "\n" }
    }

    /// The metrics of Go.
    fn metrics_of_go(&self) -> String {
        let mut lines = String::new();
        for row in &self.rows {
            let Some([kind, metric, help]) = row.metric else { continue };
            let value = format!("of.{}", row.timed(camel));
            let (function, result, value) = match (kind, row.kind) {
                ("counter", "u64") => ("Count", "uint64", value),
                ("counter", _) => ("Count", "uint64", format!("uint64({value})")),
                (_, "bool") => ("Gauge", "float64", format!("metric.One({value})")),
                (_, "f64") => ("Gauge", "float64", value),
                (_, "Milliseconds") => ("Gauge", "float64", format!("{value}.Seconds()")),
                _ => ("Gauge", "float64", format!("float64({value})")),
            };
            let (before, label) = if self.is_arm() { ("arm_", ", \"arm\"") } else { ("", "") };
            lines += &format!(
                "\t\tmetric.{function}(\"{before}{metric}\", \"{help}\", func(of *dpb.{}) {result} {{ return {value} }}{label}),\n",
                self.named().1
            );
        }
        lines
    }
}

/// The order of what version 0.1 has, but in Rust.
#[rustfmt::skip]
const FIRST: [&str; 36] = [
    "phase", "arms_active", "pending", "decisions", "answered", "cancelled", "expired", "epsilon_spent", "delta_spent",
    "is_private", "policy", "changes_detected", "segments", "max_segments", "failures", "features", "model_per_arm",
    "contributions", "contributions_lost", "fleet_key_id", "duty", "generation", "warnings", "clock_leaps", "stopped",
    "best_arm", "mean", "width", "pulls", "active", "effective_pulls", "duplicates", "late", "rejected", "unknown",
    "oversized",
];

/// An array of arms has no struct_size, so an arm has this many bytes in every version.
const SIZE_OF_ARM: usize = 64;

/// What is text in logs, because JavaScript rounds numbers above 2^53.
const IDENTIFYING: [&str; 2] = ["fleet_key_id", "generation"];

/// src/ffi/generated/report.rs and node.rs.
pub fn in_c(tables: &Tables) -> [String; 2] {
    let (of_handles, of_nodes) = tables.reports.split_at(4);
    let file = |reports: &[Report], uses: &str| {
        let names: Vec<&str> = reports.iter().map(|report| report.c).collect();
        let structs: String = reports.iter().map(|report| report.in_c(tables)).collect();
        format!(
            "//! {}.\n//!\n{RUST_HEAD}\nuse crate::ffi::sized::Growing;\n{uses}\n{}\n",
            names.join(", "),
            structs.trim_end()
        )
    };
    [file(of_handles, ""), file(of_nodes, "use std::ffi::c_char;\n")]
}

/// A part of bindings/go/table.go.
pub fn in_go(tables: &Tables) -> String {
    tables.reports.iter().map(|report| report.in_go(tables)).collect()
}

/// bindings/python/src/dpb/_report.py.
pub fn in_python(tables: &Tables) -> String {
    let classes: String = tables.reports.iter().filter(|all| !all.is_arm()).map(|all| all.in_python(tables)).collect();
    format!(
        r#"# Generated by tests/table.rs from src/tables/report.rs and node.rs; do not edit.
"""What may be read of a bandit, and of a node of a fleet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._library import POLICY_NAMES, verdict_text, words
from ._numbers import Duty, NodeState, TestState, Warnings
{classes}"#
    )
}

/// The metrics in C++, in Go and in Java, of all structs in the order of the tables.
pub fn metrics(tables: &Tables) -> [[String; 6]; 3] {
    let each = |of: fn(&Report) -> String| [0, 1, 2, 3, 4, 5].map(|i| of(&tables.reports[i]));
    [each(Report::metrics_of_cpp), each(Report::metrics_of_go), each(Report::metrics_of_java)]
}

/// What Lua reads of an arm.
pub fn arm_of_lua(tables: &Tables) -> String {
    let mut lines = String::new();
    for row in &tables.reports.iter().find(|report| report.is_arm()).unwrap().rows {
        let c = format!("arms[i].{}", row.in_c);
        let value = match row.kind {
            "bool" => format!("{c} == 1"),
            "f64" => c,
            _ => format!("tonumber({c})"),
        };
        lines += &format!("      {} = {value},\n", row.name);
    }
    lines
}

/// The records of Java: their names and their code.
pub fn in_java(tables: &Tables) -> impl Iterator<Item = (&'static str, String)> + '_ {
    tables.reports.iter().map(|report| (report.named().1, report.in_java(tables)))
}
