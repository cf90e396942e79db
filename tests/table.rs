//! Writes what follows from the tables, src/tables and src/policy/policies.rs: whole files, and the parts of other files
//! between a line with `begin generated NAME` and one with `end generated NAME`. The test `header` compares what is
//! committed with it. As a program (`cargo run -p dpb-tests`) it writes the files without a build of the library, which
//! may not compile before: after a row was renamed or removed.

use std::collections::BTreeMap;
use std::path::Path;

#[path = "table/functions.rs"]
pub mod functions;
#[path = "table/java.rs"]
pub mod java;
#[path = "table/report.rs"]
mod report;
#[path = "table/request.rs"]
mod request;

/// A row of tables/config.rs.
struct Field {
    docs: Vec<&'static str>,
    name: &'static str,
    rust: &'static str,
    /// `None` for a field that a snapshot does not keep.
    kept: Option<Kept>,
    users: &'static str,
    since: &'static str,
}

struct Kept {
    default: &'static str,
    scope: &'static str,
    in_c: &'static str,
    rule: &'static str,
}

impl Kept {
    /// The default, unless that is 0 in C.
    fn default(&self) -> Option<&'static str> {
        let default = self.default.trim_end_matches(".0");
        (!["0", "false", "Clock::Decisions", "[0.0; 8]"].contains(&default)).then_some(default)
    }
}

macro_rules! fields {
    (
        $($(#[doc = $doc:literal])* $name:ident: $type:ident = $default:expr, $scope:ident, $users:ident, $since:literal
            $(, [$($in_c:tt)*])? $(, $rule:literal => $valid:expr)?;)*
        @not_kept
        $($(#[doc = $with_doc:literal])* $with:ident: $with_type:ty, $with_users:ident, $with_since:literal;)*
    ) => {
        fn fields() -> Vec<Field> {
            vec![
                $(Field {
                    docs: vec![$($doc),*],
                    name: stringify!($name),
                    rust: stringify!($type),
                    kept: Some(Kept {
                        default: stringify!($default),
                        scope: stringify!($scope),
                        in_c: stringify!($($($in_c)*)?),
                        rule: concat!($($rule)?),
                    }),
                    users: stringify!($users),
                    since: $since,
                },)*
                $(Field {
                    docs: vec![$($with_doc),*],
                    name: stringify!($with),
                    rust: stringify!($with_type),
                    kept: None,
                    users: stringify!($with_users),
                    since: $with_since,
                },)*
            ]
        }
    };
}

include!("../src/tables/config.rs");

/// A row of policies.rs.
struct Policy {
    docs: Vec<&'static str>,
    rust: &'static str,
    number: u32,
    label: &'static str,
    constructor: &'static str,
    go: &'static str,
    group: &'static str,
    from: &'static str,
    loss: &'static str,
    can: &'static str,
    needs: &'static str,
    uses: &'static str,
    refuses: Vec<&'static str>,
    select: &'static str,
    update: &'static str,
    bytes: &'static str,
    arms: &'static str,
}

macro_rules! algorithms {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident = $number:literal, $label:literal, $constructor:ident, $go:literal, $group:ident, $new:path {
            from: $from:literal;
            loss: $loss:path;
            can: $can:literal;
            $(also: $also:literal;)?
            needs: $needs:literal;
            uses: $uses:literal;
            $(refuses: $refused:ident $why:literal;)*
            select: $select:literal;
            update: $update:literal;
            bytes: $bytes:literal;
            arms: $arms:literal;
        }
    )*) => {
        fn policies() -> Vec<Policy> {
            vec![$(Policy {
                docs: vec![$($doc),*],
                rust: stringify!($name),
                number: $number,
                label: std::ffi::CStr::to_str($label).unwrap(),
                constructor: stringify!($constructor),
                go: $go,
                group: stringify!($group),
                from: $from,
                loss: stringify!($loss),
                can: $can,
                needs: $needs,
                uses: $uses,
                refuses: vec![$(stringify!($refused)),*],
                select: $select,
                update: $update,
                bytes: $bytes,
                arms: $arms,
            },)*]
        }
    };
}

include!("../src/policy/policies.rs");

/// reward_window -> RewardWindow, key_id -> KeyID.
fn camel(snake: &str) -> String {
    let capital = |word: &str| if word == "id" { "ID".to_owned() } else { word[..1].to_uppercase() + &word[1..] };
    snake.split('_').map(capital).collect()
}

/// OverBudget -> OVER_BUDGET.
fn upper(camel: &str) -> String {
    let mut upper = String::new();
    for letter in camel.chars() {
        if letter.is_uppercase() && !upper.is_empty() {
            upper.push('_');
        }
        upper.extend(letter.to_uppercase());
    }
    upper
}

/// Lines of at most `width` characters, each with `prefix` before it. An empty line of the text stays one.
fn wrap(text: &str, prefix: &str, width: usize) -> String {
    let mut out = String::new();
    for paragraph in text.split("\n\n") {
        if !out.is_empty() {
            out += &format!("{}\n", prefix.trim_end());
        }
        let mut line = prefix.to_owned();
        for word in paragraph.split_whitespace() {
            if line.len() + word.len() + usize::from(line != prefix) > width {
                out += &format!("{}\n", std::mem::replace(&mut line, prefix.to_owned()));
            }
            if line != prefix {
                line.push(' ');
            }
            line += word;
        }
        out += &format!("{line}\n");
    }
    out
}

/// a, b and c.
fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Language {
    C,
    Go,
    Python,
    Java,
}

/// The name of a field, a bit of `flags`, or a value of it.
fn flag(field: &Field) -> Option<(&'static str, &'static str)> {
    field.kept.as_ref()?.in_c.strip_prefix("flag ")?.split_once(' ')
}

/// The name in C, and the names of its values.
fn named(field: &Field) -> Option<(&'static str, Vec<&'static str>)> {
    let (name, values) = field.kept.as_ref().filter(|kept| !kept.in_c.starts_with("flag "))?.in_c.split_once(' ')?;
    Some((name, values.split(' ').collect()))
}

fn c_name(field: &Field) -> &'static str {
    named(field).map_or(field.name, |(name, _)| name)
}

fn c_type(field: &Field) -> &'static str {
    match field.rust {
        "u32" | "bool" | "Clock" => "u32",
        "u64" => "u64",
        "f64" => "f64",
        "PartWeights" => "[f64; 8]",
        "Option<Budget>" => "*const dpb_budget",
        "Option<[u8; 32]>" | "Option<FleetKey>" => "*const u8",
        "Option<Codebook>" => "*const f32",
        other => panic!("a type for C of {other}: c_type, from_c and go_type in tests/table.rs"),
    }
}

fn go_type(field: &Field) -> &'static str {
    match (field.rust, field.name) {
        (_, "base") => "Policy",
        ("u32", _) => "uint32",
        ("u64", _) => "uint64",
        ("f64", _) => "float64",
        ("PartWeights", _) => "[8]float64",
        ("bool", _) => "bool",
        ("Clock", _) => "Clock",
        ("Option<Budget>", _) => "*Budget",
        ("Option<Codebook>", _) => "[]float32",
        _ => "*[32]byte",
    }
}

/// A member of a struct of C.
struct Member {
    text: String,
    name: String,
    of: &'static str,
    since: &'static str,
}

impl Member {
    fn new(text: impl Into<String>, name: impl Into<String>, of: &'static str, since: &'static str) -> Member {
        Member { text: text.into(), name: name.into(), of, since }
    }
}

/// These members, the oldest first, without holes: the next one of 32 bits fills a hole, or `reserved` does, whose place a
/// later version may take.
fn layout(members: impl Iterator<Item = Member>) -> Vec<Member> {
    let (mut left, mut all): (Vec<Member>, Vec<Member>) = (members.collect(), Vec::new());
    left.sort_by_key(|member| member.since);
    let (mut is_hole, mut holes) = (false, 0);
    while is_hole || !left.is_empty() {
        let fits = |member: &Member| !is_hole || member.of == "u32" && member.since == left[0].since;
        match left.iter().position(fits) {
            Some(next) => all.push(left.remove(next)),
            None => {
                holes += 1;
                let name = if holes == 1 { "reserved".to_owned() } else { format!("reserved_{holes}") };
                all.push(Member::new("Always 0.", name, "u32", all.last().unwrap().since));
            }
        }
        is_hole ^= all.last().unwrap().of == "u32";
    }
    all
}

/// The size of these members with 64-bit addresses.
fn size(members: &[Member]) -> usize {
    let bytes = |member: &Member| match member.of {
        "u32" => 4,
        "[f64; 8]" => 64,
        "[c_char; 256]" => 256,
        _ => 8,
    };
    members.iter().map(bytes).sum()
}

/// These members in Rust.
fn show(members: &[Member]) -> String {
    let one =
        |member: &Member| format!("{}    pub {}: {},\n", wrap(&member.text, "    /// ", 118), member.name, member.of);
    members.iter().map(one).collect()
}

/// Says of a struct of C that it can grow, and how large its first version was.
fn growing(name: &str, members: &[Member], what: &str) -> String {
    let newer = members.iter().find(|member| member.since != "0.1");
    let first = newer.map_or(String::new(), |newer| {
        let offset = format!("std::mem::offset_of!({name}, {}).next_multiple_of(8)", newer.name);
        format!("\n    const FIRST: usize = {offset};\n")
    });
    format!(
        "// SAFETY: repr(C), begins with its size, ends in no padding; all its fields are {what}.\nunsafe impl Growing for \
         {name} {{{first}}}\n\n"
    )
}

struct Tables {
    /// In the order of C: the papers' fields follow the others, and newer ones all older ones.
    fields: Vec<Field>,
    policies: Vec<Policy>,
    reports: Vec<report::Report>,
    request: Vec<request::Field>,
}

impl Tables {
    fn new() -> Tables {
        let (mut fields, policies) = (fields(), policies());
        let ours = |field: &Field| {
            field.users == "Every" || policies.iter().any(|p| p.group == "Ours" && words(p.uses).contains(&field.name))
        };
        for policy in &policies {
            assert_eq!(policy.constructor, format!("dpb_new_{}", short(policy)));
            let named = words(policy.uses).into_iter().chain(words(policy.needs)).chain(policy.refuses.clone());
            for name in named.flat_map(|group| group.split('|')) {
                assert!(fields.iter().any(|field| field.name == name), "{}: {name} is no field", policy.label);
            }
        }
        fields.sort_by_key(|field| (field.since, !ours(field)));
        Tables { fields, policies, reports: report::reports(), request: request::request() }
    }

    fn constructor(&self, policy: &Policy, language: Language) -> String {
        match language {
            Language::C => policy.constructor.to_owned(),
            Language::Go => format!("[New{}]", policy.go),
            Language::Python => policy.label.to_owned(),
            Language::Java => format!("Policy.{}", short(policy).to_uppercase()),
        }
    }

    /// The name of a Rust path, such as crate::Bandit::advance.
    fn path(&self, path: &str, language: Language) -> String {
        let parts: Vec<&str> = path.trim_start_matches("crate::").split("::").collect();
        match (&parts[..], language) {
            (["Config", name], _) => {
                let field = self.fields.iter().find(|field| field.name == *name).unwrap_or_else(|| panic!("{path}"));
                match language {
                    Language::C => format!("dpb_config.{}", c_name(field)),
                    Language::Go => format!("[Config.{}]", camel(name)),
                    Language::Python => (*name).to_owned(),
                    Language::Java => format!("Config.{}", java::camel(name)),
                }
            }
            (["Bandit", "restore" | "restore_as"], Language::Java) => "Bandit.restore".to_owned(),
            ([class @ ("Bandit" | "Request"), name], Language::Java) => format!("{class}.{}", java::camel(name)),
            (["Error", name], Language::Java) => format!("Status.{}", upper(name)),
            ([class @ ("Clock" | "Duty" | "TestState"), name], Language::Java) => format!("{class}.{}", upper(name)),
            (["Warnings", name], Language::Java) => format!("Warning.{name}"),
            (["ffi", "dpb_ldp_encode"], Language::Java) => "LocalModel.encode".to_owned(),
            (["ffi", name], Language::Java) => format!("Bandit.{}", java::camel(name.trim_start_matches("dpb_"))),
            (["NO_ARM"], Language::Java) => "Decision.NO_ARM".to_owned(),
            ([name], Language::Java) => (*name).to_owned(),
            (["Bandit", name], Language::C) => format!("dpb_{name}"),
            (["Bandit", "restore"], Language::Go) => "[Restore]".to_owned(),
            (["Bandit", "restore_as"], Language::Go) => "[RestorePolicy]".to_owned(),
            (["Bandit", name], Language::Go) => format!("[Bandit.{}]", camel(name)),
            (["Bandit", "restore" | "restore_as"], Language::Python) => "Bandit.restore".to_owned(),
            (["Bandit", name], Language::Python) => format!("Bandit.{name}"),
            (["Request", name], Language::Python) => format!("{name} of a request"),
            (["Error", name], Language::Python) => format!("{name}Error"),
            (["Clock", name], Language::Python) => format!("Clock.{}", upper(name)),
            (["ffi", name], Language::Python) => name.trim_start_matches("dpb_").to_owned(),
            ([name], Language::Python) => (*name).to_owned(),
            (["Request", name], Language::C) => format!("dpb_request.{name}"),
            (["Request", name], Language::Go) => format!("[Request.{}]", camel(name)),
            (["Error", name], Language::C) => format!("DPB_{}", upper(name)),
            (["Error", name], Language::Go) => format!("[Err{name}]"),
            (["Clock", name], Language::C) => format!("DPB_CLOCK_{}", upper(name)),
            (["Clock", name], Language::Go) => format!("[Clock{name}]"),
            (["Duty", name], Language::C) => format!("DPB_DUTY_{}", upper(name)),
            (["Duty", name], Language::Go) => format!("[Duty{name}]"),
            (["Duty", name], Language::Python) => format!("Duty.{}", upper(name)),
            (["TestState", name], Language::C) => format!("DPB_TEST_{}", upper(name)),
            (["TestState", name], Language::Go) => format!("[Test{name}]"),
            (["TestState", name], Language::Python) => format!("TestState.{}", upper(name)),
            (["Warnings", name], Language::C) => format!("DPB_WARN_{name}"),
            (["Warnings", name], Language::Go) => format!("[Warn{}]", camel(&name.to_lowercase())),
            (["Warnings", name], Language::Python) => format!("Warnings.{name}"),
            (["ffi", name], Language::C) => (*name).to_owned(),
            (["ffi", "dpb_ldp_encode"], Language::Go) => "[LDPEncode]".to_owned(),
            (["ffi", name], Language::Go) => format!("[{}]", camel(name.trim_start_matches("dpb_"))),
            (["NO_ARM"], Language::C) => "DPB_NO_ARM".to_owned(),
            (["NO_ARM"], Language::Go) => "[NoArm]".to_owned(),
            ([name], Language::C) => format!("dpb_{}", upper(name).to_lowercase()),
            ([name], Language::Go) => format!("[{name}]"),
            _ => panic!("{path}: a name in other languages"),
        }
    }

    /// The name of what is in backticks: a policy, a field, or other code.
    fn code(&self, code: &str, language: Language) -> String {
        if let Some(policy) = self.policies.iter().find(|policy| policy.label == code) {
            return self.constructor(policy, language);
        }
        let field = self.fields.iter().find(|field| field.name == code);
        match (field, language) {
            (Some(field), Language::Go) => camel(field.name),
            (Some(field), Language::C) => match (flag(field), named(field)) {
                (Some((flag, _)), _) => flag.to_owned(),
                (_, Some((_, values))) if field.rust == "bool" => values[1].to_owned(),
                _ => code.to_owned(),
            },
            (None, Language::C) => match code {
                "true" => "1".to_owned(),
                "false" => "0".to_owned(),
                _ => code.replace("None", "NULL"),
            },
            (None, Language::Go) if self.request.iter().any(|field| field.name == code) => camel(code),
            (None, Language::Go) => code.replace("None", "nil"),
            (Some(field), Language::Java) => java::camel(field.name),
            (None, Language::Java) if self.request.iter().any(|field| field.name == code) => java::camel(code),
            (None, Language::Java) => code.replace("None", "null"),
            (_, Language::Python) => match code {
                "true" => "True".to_owned(),
                "false" => "False".to_owned(),
                _ => code.to_owned(),
            },
        }
    }

    /// A text of a table in the words of a language.
    fn translate(&self, text: &str, language: Language) -> String {
        let (mut out, mut rest) = (String::new(), text);
        while let Some(at) = rest.find('`') {
            let (before, code) = rest.split_at(at);
            let (code, after) = code[1..].split_once('`').unwrap();
            let link = after.strip_prefix("](").and_then(|after| after.split_once(')'));
            match (before.strip_suffix('['), link) {
                (Some(before), Some((path, after))) => {
                    out += before;
                    out += &self.path(path, language);
                    rest = after;
                }
                _ => {
                    out += before;
                    out += &self.code(code, language);
                    rest = after;
                }
            }
        }
        out + rest
    }

    /// The text of a row, of which each element is a line.
    fn text(&self, docs: &[&str], language: Language) -> String {
        let lines: Vec<&str> = docs.iter().map(|line| line.trim()).collect();
        let paragraphs = lines.split(|line| line.is_empty()).map(|lines| lines.join(" "));
        self.translate(&paragraphs.collect::<Vec<_>>().join("\n\n"), language)
    }

    /// The documentation of a field: its text, range, default, and policies.
    fn describe(&self, field: &Field, language: Language) -> String {
        let mut text = self.text(&field.docs, language);
        if let Some(kept) = &field.kept {
            if !kept.rule.is_empty() {
                text += &format!(" It {}.", self.translate(kept.rule, language));
            }
            if let Some(default) = kept.default()
                && !["arms", "epsilon"].contains(&field.name)
            {
                text += &format!(" Default {default}.");
            }
        }
        let these = |is: &dyn Fn(&&Policy) -> bool| {
            list(&self.policies.iter().filter(is).map(|p| self.constructor(p, language)).collect::<Vec<_>>())
        };
        let users = self.policies.iter().filter(|policy| words(policy.uses).contains(&field.name)).count();
        if field.users == "Listed" && users <= self.policies.len() / 2 {
            text += &format!(" For {}.", these(&|policy| words(policy.uses).contains(&field.name)));
        } else if field.users == "Listed" {
            text += &format!(" Not for {}.", these(&|policy| !words(policy.uses).contains(&field.name)));
        }
        let refused = these(&|policy| policy.refuses.contains(&field.name));
        if !refused.is_empty() {
            text += &format!(" Not for {refused}.");
        }
        text
    }

    /// The members of dpb_config. Where a number of 32 bits would leave a hole, `reserved_2` fills it. What is added later
    /// takes its place, because it must be 0.
    fn members(&self) -> Vec<Member> {
        let bytes = "sizeof(dpb_config). dpb_config_init sets it, so that the struct can grow.";
        let mut all = vec![Member::new(bytes, "struct_size", "u32", "0.1")];
        let is_whole = |all: &[Member]| size(all).is_multiple_of(8);
        let mut holes = 1;
        let mut fill = |all: &mut Vec<_>, since| {
            holes += 1;
            all.push(Member::new("0.", format!("reserved_{holes}"), "u32", since));
        };
        let mut flags = false;
        for field in &self.fields {
            if field.kept.is_none() && !flags {
                let names = self.fields.iter().filter_map(flag).map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
                let text = format!("0, or any of {}, joined by |.", list(&names));
                all.push(Member::new(text, "flags", "u32", "0.1"));
                all.push(Member::new("0.", "reserved", "u64", "0.1"));
                flags = true;
            }
            if flag(field).is_some() {
                continue;
            }
            if c_type(field) != "u32" && !is_whole(&all) {
                fill(&mut all, field.since);
            }
            let mut text = self.describe(field, Language::C);
            if let Some((_, values)) = named(field) {
                let values: Vec<_> = values.iter().map(|value| (*value).to_owned()).collect();
                text = format!("{} (the default) or {}. {text}", values[0], values[1..].join(" or "));
            }
            all.push(Member::new(text, c_name(field), c_type(field), field.since));
        }
        if !is_whole(&all) {
            let since = all.last().unwrap().since;
            fill(&mut all, since);
        }
        all
    }

    /// src/ffi/generated/config.rs.
    fn struct_of_c(&self) -> String {
        let members = self.members();
        let structure = show(&members);
        let mut constants = String::new();
        let mut bits = Vec::new();
        for field in &self.fields {
            if let Some((name, bit)) = flag(field) {
                let text = format!("dpb_config.flags: {}", self.describe(field, Language::C));
                constants += &format!("{}pub const {name}: u32 = {bit};\n", wrap(&text, "/// ", 118));
                bits.push(name);
            }
        }
        let (mut to_c, mut from_c, mut checks) = (String::new(), String::new(), String::new());
        for field in &self.fields {
            let (name, c) = (field.name, c_name(field));
            let read = match (flag(field), named(field), field.rust) {
                (Some((flag, _)), ..) => format!("given.flags & {flag} != 0"),
                (_, Some((_, values)), "bool") => {
                    let last = values.last().unwrap();
                    checks += &format!(
                        "        let rule = \"must be {}\";\n        \
                         Error::unless(given.{c} <= {last}, \"{c}\", rule, given.{c})?;\n",
                        values.join(" or ")
                    );
                    format!("given.{c} == {last}")
                }
                (.., "Clock") => format!("Clock::try_from(given.{c})?"),
                (.., "Option<[u8; 32]>") => format!("read_seed(given.{c})"),
                (.., "Option<FleetKey>") => format!("read_seed(given.{c}).map(FleetKey::from)"),
                (.., "Option<Budget>") => {
                    format!("unsafe {{ given.{c}.as_ref() }}.map(|{c}| {c}.budget.clone())")
                }
                (.., "Option<Codebook>") => {
                    "unsafe { read_book(given.codebook, given.codebook_len, given.features) }?".to_owned()
                }
                _ => format!("given.{c}"),
            };
            if field.rust == "Option<Budget>" {
                from_c += "            // SAFETY: NULL or live, by contract.\n";
            }
            if field.rust == "Option<Codebook>" {
                from_c += "            // SAFETY: NULL or so many rows, by contract.\n";
            }
            from_c += &format!("            {name}: {read},\n");
            if field.kept.as_ref().and_then(Kept::default).is_some() {
                to_c += &format!("        self.{c} = config.{name};\n");
            }
        }
        for Member { name, .. } in members.iter().filter(|member| member.name.starts_with("reserved")) {
            checks += &format!("        Error::unless(given.{name} == 0, \"{name}\", \"must be 0\", given.{name})?;\n");
        }
        let growing = growing("dpb_config", &members, "numbers and addresses");
        let (size, bits) = (size(&members), bits.join(" | "));
        format!(
            r#"//! dpb_config, and its copies from and to [`Config`].
//!
{RUST_HEAD}
use crate::config::{{Clock, Config}};
use crate::contribution::FleetKey;
use crate::error::{{Error, Result}};
use crate::ffi::budget::dpb_budget;
use crate::ffi::config::{{DPB_MODEL_PER_ARM, read_book, read_seed}};
use crate::ffi::sized::Growing;

/// The configuration of a bandit. Fill it with dpb_config_init, then change what you need. A field that the policy does
/// not use must have its default, so that no setting is without effect: DPB_INVALID_CONFIG names the field.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dpb_config {{
{structure}}}

{constants}
const _: () = assert!(size_of::<*const u8>() != 8 || size_of::<dpb_config>() == {size});

{growing}impl dpb_config {{
    /// Copies what is not 0 in every [`Config::new`].
    pub(in crate::ffi) fn copy(&mut self, config: &Config) {{
{to_c}    }}

    /// The configuration that this states.
    ///
    /// # Safety
    /// The pointers are NULL or valid.
    pub(in crate::ffi) unsafe fn convert(&self) -> Result<Config> {{
        let given = self;
        let all = {bits};
        Error::unless(given.flags & !all == 0, "flags", "must be 0 or DPB_ flags of dpb_config", given.flags)?;
{checks}        Ok(Config {{
{from_c}        }})
    }}
}}
"#
        )
    }

    /// The numbers and constructors of these groups as cbindgen reads them: without what they do.
    fn constructors(&self, groups: &[&str]) -> String {
        let mut constants = String::new();
        let mut functions = String::new();
        for policy in groups.iter().flat_map(|group| self.policies.iter().filter(move |p| p.group == *group)) {
            let (name, number) = (short(policy), policy.number);
            let constant = format!("DPB_POLICY_{}", name.to_uppercase());
            constants += &format!(
                "/// dpb_report.policy and dpb_config.base: dpb_new_{name}.\npub const {constant}: u32 = {number};\n"
            );
            let mut text = self.text(&policy.docs, Language::C);
            if !words(policy.uses).is_empty() {
                let uses: Vec<_> = words(policy.uses).iter().map(|field| self.code(field, Language::C)).collect();
                text += &format!("\n\nOf the fields that not all policies use it uses {}.", list(&uses));
            } else {
                text += "\n\nIt uses no field that not all policies use.";
            }
            if policy.arms.strip_prefix("2^").is_some_and(|power| power.parse::<u32>().is_ok_and(|n| n < 24)) {
                text += &format!(" At most {} arms.", policy.arms);
            }
            functions += &format!(
                r#"
{}/// Parameters, statuses and threads as dpb_new.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn dpb_new_{name}(config: *const dpb_config, out: *mut *mut dpb_bandit, error: *mut dpb_error) -> dpb_status {{}}
"#,
                wrap(&text, "/// ", 118)
            );
        }
        constants + &functions
    }

    /// bindings/go/table.go.
    fn go(&self) -> String {
        let (mut structure, mut new, mut copy) = (String::new(), String::new(), String::new());
        let kept = || {
            self.fields
                .iter()
                .filter(|field| field.kept.is_some() && flag(field).is_none() && field.rust != "PartWeights")
                .filter(|field| field.name != "codebook_len")
        };
        let longest = kept().map(|field| field.name.split('_').map(str::len).sum::<usize>()).max().unwrap();
        for field in self.fields.iter().filter(|field| field.name != "codebook_len") {
            let (name, c, of) = (camel(field.name), c_name(field), go_type(field));
            let tag = if ["fleet_key", "budget"].contains(&field.name) { " `json:\"-\"`" } else { "" };
            structure += &format!("{}\t{name} {of}{tag}\n", wrap(&self.describe(field, Language::Go), "\t// ", 118));
            let c_type = match c_type(field) {
                "f64" => "double",
                "u64" => "uint64_t",
                _ => "uint32_t",
            };
            copy += &match (flag(field), named(field), field.rust) {
                (Some((flag, _)), ..) => format!("\tif config.{name} {{\n\t\tc.flags |= C.{flag}\n\t}}\n"),
                (_, Some((_, values)), "bool") => {
                    format!("\tc.{c} = C.{}\n\tif config.{name} {{\n\t\tc.{c} = C.{}\n\t}}\n", values[0], values[1])
                }
                (.., "Option<Budget>") => {
                    format!(
                        "\tif config.{name} != nil {{\n\t\tdone = config.{name}.leave\n\t\tc.{c}, err = config.{name}.enter()\n\t}}\n"
                    )
                }
                (.., "PartWeights") => {
                    format!("\tfor i, weight := range config.{name} {{\n\t\tc.{c}[i] = C.double(weight)\n\t}}\n")
                }
                (.., "Option<Codebook>") => "\tif c.codebook, c.codebook_len, err = pinBook(pinner, config.Codebook, \
                     config.Features); err != nil {\n\t\treturn c, done, err\n\t}\n"
                    .to_owned(),
                (.., other) if other.starts_with("Option") => format!("\tc.{c} = pinBytes(pinner, config.{name})\n"),
                _ => format!("\tc.{c} = C.{c_type}(config.{name})\n"),
            };
            // An array is all zeros at first.
            if field.kept.is_some() && flag(field).is_none() && !of.starts_with('[') {
                let value = match field.rust {
                    "bool" => format!("c.{c} != 0"),
                    _ => format!("{of}(c.{c})"),
                };
                let colon = format!("{name}:");
                new += &format!("\t\t{colon:<width$} {value},\n", width = longest + 1);
            }
        }
        let longest = self.policies.iter().map(|policy| policy.go.len()).max().unwrap() + "Policy".len();
        let (mut constants, mut constructors) = (String::new(), String::new());
        for policy in &self.policies {
            let (go, name) = (policy.go, short(policy));
            let constant = format!("Policy{go}");
            constants += &format!("\t{constant:<longest$} Policy = C.DPB_POLICY_{}\n", name.to_uppercase());
            let mut text = format!("New{go} makes this: {}", self.text(&policy.docs, Language::Go));
            let uses: Vec<_> = words(policy.uses).iter().map(|field| camel(field)).collect();
            if !uses.is_empty() {
                text += &format!("\n\nOf the fields that not all policies use it uses {}.", list(&uses));
            }
            constructors += &format!(
                "\n{}func New{go}(c Config) (*Bandit, error) {{\n\treturn newBandit(C.constructor(C.dpb_new_{name}), c)\n}}\n",
                wrap(&text, "// ", 118)
            );
        }
        let mut renamed = BTreeMap::new();
        let mut values = BTreeMap::new();
        for field in &self.fields {
            let name = camel(field.name);
            if let Some((flag, _)) = flag(field) {
                renamed.insert(flag, name);
            } else if let Some((c, of_c)) = named(field) {
                renamed.insert(c, name);
                for (value, go) in of_c.iter().zip(["false", "true"]).filter(|_| field.rust == "bool") {
                    values.insert(*value, go.to_owned());
                }
            }
        }
        let map = |name: &str, text: &str, map: &BTreeMap<&str, String>| {
            let longest = map.keys().map(|key| key.len() + 3).max().unwrap_or(0);
            let rows = map.iter().map(|(key, value)| format!("\t{:<longest$} \"{value}\",\n", format!("\"{key}\":")));
            format!("\n// {text}\nvar {name} = map[string]string{{\n{}}}\n", rows.collect::<String>())
        };
        let [preamble, request_in_go] = request::in_go(self);
        format!(
            r#"// Code generated by tests/table.rs from src/tables and src/policy/policies.rs. DO NOT EDIT.

package dpb

/*
{CGO}{preamble}
typedef dpb_status (*constructor)(const dpb_config *, dpb_bandit **, dpb_error *);
*/
import "C"

import (
	"log/slog"
	"runtime"
	"time"
	"unsafe"
)

// Config configures a bandit. Start from [NewConfig]: the zero value is not valid. A field that the policy does not use
// must have its default: [ErrInvalidConfig] names it.
type Config struct {{
{structure}}}

// NewConfig returns the library's defaults for this number of arms and this epsilon. It checks nothing: constructors do.
func NewConfig(arms uint32, epsilon float64) Config {{
	var c C.dpb_config
	C.dpb_config_init_sized(&c, C.sizeof_dpb_config, C.uint32_t(arms), C.double(epsilon))
	return Config{{
{new}	}}
}}

// c fills the C struct. The pinner keeps the seed and the key in place until the constructor has read them. The budget
// stays open until done is called.
func (config Config) c(pinner *runtime.Pinner) (c *C.dpb_config, done func(), err error) {{
	c, done = new(C.dpb_config), func() {{}}
	C.dpb_config_init_sized(c, C.sizeof_dpb_config, C.uint32_t(config.Arms), C.double(config.Epsilon))
{copy}	return c, done, err
}}

// These policies have their own constructors.
const (
{constants})

// There is one constructor for each dpb_new_<policy>.
//
// A constructor returns [ErrInvalidConfig] with a message that names the field and the value, [ErrEntropy],
// [ErrNoMemory], or [ErrOverBudget] if [Config.Budget] has too little left.
{constructors}{}{}{}"#,
            request_in_go + &report::in_go(self),
            map("renamed", "renamed has the fields of Config that have another name in C.", &renamed),
            map("revalued", "revalued has the values that are others in C.", &values),
        )
    }

    /// bindings/python/src/dpb/_table.py.
    fn python(&self) -> String {
        let (mut structure, mut kinds) = (String::new(), String::new());
        // What has no default comes first.
        let given = |field: &&Field| ["arms", "epsilon"].contains(&field.name);
        for field in self.fields.iter().filter(given).chain(self.fields.iter().filter(|field| !given(field))) {
            let name = field.name;
            if name == "part_weights" || name == "codebook_len" {
                continue; // `parts` has names and weights, `codebook` its rows
            }
            if name == "parts" {
                structure += &format!(
                    "    parts: Mapping[str, float] | None = None\n    \"\"\"{}\"\"\"\n",
                    wrap(PARTS_IN_PYTHON, "    ", 116).trim()
                );
                kinds += "    \"parts\": \"parts\",\n";
                continue;
            }
            let of = match (field.rust, name) {
                (_, "base") => "str | None",
                ("u32" | "u64", _) => "int",
                ("f64", _) => "float",
                ("bool", _) => "bool",
                ("Clock", _) => "Clock",
                ("Option<Budget>", _) => "Budget | None",
                ("Option<Codebook>", _) => "Any",
                _ => "bytes | None",
            };
            let default = match (&field.kept, field.rust) {
                _ if given(&field) => String::new(),
                _ if name == "base" => " = None".to_owned(),
                (Some(kept), "bool") => format!(" = {}", camel(kept.default)),
                (Some(_), "Clock") => " = Clock.DECISIONS".to_owned(),
                (Some(kept), _) => format!(" = {}", kept.default),
                (None, _) => " = field(default=None, repr=False)".to_owned(),
            };
            let text = wrap(&self.describe(field, Language::Python), "    ", 116);
            structure += &format!("    {name}: {of}{default}\n    \"\"\"{}\"\"\"\n", text.trim());
            let kind = match (flag(field), named(field)) {
                (Some((flag, _)), _) => format!("flag {flag}"),
                (_, Some((c, _))) => c.to_owned(),
                _ => field.rust.replace("Option<Budget>", "budget").replace("Option<Codebook>", "codebook"),
            };
            let kind = if kind.starts_with("Option") { "key".to_owned() } else { kind };
            kinds += &format!("    \"{name}\": \"{kind}\",\n");
        }
        let [.., request] = request::in_python(self);
        let mut policies = String::new();
        for policy in &self.policies {
            let text = self.text(&policy.docs, Language::Python);
            let lines =
                wrap(&text, "", 112).trim_end().replace('\\', "\\\\").replace('\n', "\n    ").replace("    \n", "\n");
            policies += &format!("    \"{}\": \"\"\"{lines}\"\"\",\n", policy.label);
        }
        format!(
            r#"# Generated by tests/table.rs from src/tables and src/policy/policies.rs; do not edit.
"""The configuration of a bandit, and what its policies are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Mapping

from ._numbers import Clock

if TYPE_CHECKING:
    from ._budget import Budget


@dataclass
class Config:
    """The configuration of a bandit.

    ``arms`` and ``epsilon`` have no default. A field that the policy does not use must have its default:
    InvalidConfigError names the field.
    """

{structure}

REQUEST = {{
{request}}}
"""What each field of a request is, but slots and features."""

KINDS = {{
{kinds}}}
"""What each field is in dpb_config: a type, the name of a number, or a bit of its flags."""

POLICIES = {{
{policies}}}
"""The policies by name: what each is, and what it needs."""
"#
        )
    }

    /// The lines of C++'s constructors.
    fn cpp(&self) -> String {
        let line = |policy: &Policy| {
            let name = short(policy);
            format!("  [[nodiscard]] static Bandit {name}(const Config &c) {{ return Bandit(dpb_new_{name}, c); }}\n")
        };
        self.policies.iter().map(line).collect()
    }

    /// The tables of docs/reference/policies.md.
    fn page(&self) -> [String; 2] {
        let mut all =
            "| policy | Rust | C | from | guarantee | can | needs |\n|---|---|---|---|---|---|---|\n".to_owned();
        let mut costs = "| policy | select | update | bytes | most arms |\n|---|---|---|---|---|\n".to_owned();
        for policy in &self.policies {
            let Policy { label, rust, from, can, needs, select, update, bytes, arms, .. } = policy;
            let guarantee = match policy.loss {
                "unbounded" => "none: a baseline",
                "approximate" => "(epsilon, delta)",
                "pure" => "epsilon, pure",
                _ => "epsilon, pure; zCDP with a delta",
            };
            let model = match policy.group {
                "Shuffle" => ", shuffle model",
                "Local" => ", local model",
                _ => "",
            };
            let cell = |text: &str| if text.is_empty() { " ".to_owned() } else { format!(" {text} ") };
            let needs = needs.replace(' ', ", ").replace('|', " or ");
            all += &format!(
                "| `{label}` | `Algorithm::{rust}` | `dpb_new_{}` | {from} | {guarantee}{model} |{}|{}|\n",
                short(policy),
                cell(can),
                cell(&needs),
            );
            costs += &format!("| `{label}` | {select} | {update} | {bytes} | {arms} |\n");
        }
        [all, costs]
    }

    /// What a restart may change (`true`), and what it may not, as C names it.
    fn restart(&self, may: bool, quoted: bool) -> Vec<String> {
        let is = |field: &&Field| match &field.kept {
            Some(kept) => (kept.scope != "Releases") == may,
            None => may && field.name != "test_seed",
        };
        let name = |field: &Field| match flag(field) {
            Some((flag, _)) => flag,
            None => c_name(field),
        };
        let quote = |name: &str| if quoted { format!("`{name}`") } else { name.to_owned() };
        let fits = |field: &Field| match field.name {
            "max_segments" => format!("a {} that the snapshot's segments fit into", quote(name(field))),
            _ => quote(name(field)),
        };
        self.fields.iter().filter(is).map(fits).collect()
    }

    /// All files: their paths and contents. `read` reads what is there, `read_all` all files of a directory.
    fn files(&self, read: &dyn Fn(&str) -> String, read_all: &dyn Fn(&str) -> String) -> Vec<(&'static str, String)> {
        let part = |path: &'static str, parts: &[(&str, &str)]| {
            let text = read(path);
            (path, parts.iter().fold(text, |text, (name, part)| splice(path, &text, name, part)))
        };
        let ffi = read_all("src/ffi") + &self.constructors(&["Ours", "Papers", "Baselines", "Shuffle", "Local"]);
        let table_of_go = self.go();
        let cgo = functions::cgo(&(read_all("bindings/go") + &table_of_go), &ffi);
        let [all, costs] = self.page();
        let [of_handles, of_nodes] = report::in_c(self);
        let [cpp, go, java] = report::metrics(self);
        let [select, select_many, check, _] = request::in_python(self);
        let made = |policy: &Policy| {
            let Policy { label, go, loss, needs, .. } = policy;
            format!("\t\t{{\"{label}\", New{go}, {}, \"{needs}\"}},\n", *loss != "unbounded")
        };
        let constructed: String = self.policies.iter().map(made).collect();
        let names: String = self.policies.iter().map(|policy| format!("    dpb_new_{},\n", short(policy))).collect();
        let can = |what: &str, before: &str| {
            let can = self.policies.iter().filter(|policy| policy.can.split(", ").any(|can| can == what));
            let names: Vec<String> = can.map(|policy| policy.constructor.to_owned()).collect();
            wrap(&format!("{before} {}.", list(&names)), "    /// ", 118)
        };
        let (kept, taken) = (list(&self.restart(false, false)), list(&self.restart(true, false)));
        let restart = wrap(
            &format!(
                "These must be as in the snapshot, because they say how released numbers are read: the policy (name), \
                 {kept}; with dpb_new_vb_sdp_ae horizon, which plans its batches; and with policies that decide for an arm \
                 (dpb_best_arm) beta, because the decision has it. Otherwise the call is \
                 DPB_INVALID_CONFIG, and error names the field. These are taken from config: {taken}. A test_seed is \
                 not used. If there was no forget_after before, releases begin to age now."
            ),
            "    /// ",
            118,
        );
        let retuning = format!(
            "| taken from the new configuration | must be as in the snapshot (`DPB_INVALID_CONFIG` names the field) |\n\
             |---|---|\n| {} | policy, {}; with `vb-sdp-ae` also `horizon`, with policies that decide for an arm (`dpb_best_arm`) also `beta` |\n",
            self.restart(true, true).join(", "),
            self.restart(false, true).join(", "),
        );
        let rust: Vec<String> = [false, true]
            .iter()
            .map(|may| {
                let is = |field: &&Field| field.kept.as_ref().is_some_and(|kept| (kept.scope != "Releases") == *may);
                let fits = |field: &Field| if field.name == "max_segments" { " if its segments fit" } else { "" };
                let name = |field: &Field| format!("`{}`{}", field.name, fits(field));
                self.fields.iter().filter(is).map(name).collect::<Vec<_>>().join(", ")
            })
            .collect();
        let doc = format!(
            "    /// | the same as in the snapshot | taken from `config` |\n    /// |---|---|\n    /// | policy, {}, whether \
             there are segments; of VB-SDP-AE `horizon`, which plans its batches; of policies that \
             decide for an arm `beta` | {} |\n",
            rust[0], rust[1]
        );
        let mut files = java::files(self);
        files.extend([
            ("src/ffi/generated/config.rs", self.struct_of_c()),
            ("src/ffi/generated/report.rs", of_handles),
            ("src/ffi/generated/node.rs", of_nodes),
            ("src/ffi/generated/request.rs", request::in_c(self)),
            ("bindings/go/table.go", table_of_go.replace(CGO, &cgo)),
            ("bindings/python/src/dpb/_table.py", self.python()),
            ("bindings/python/src/dpb/_report.py", report::in_python(self)),
            part("bindings/cpp/dpb.hpp", &[("constructors", &self.cpp()), ("request", &request::in_cpp(self))]),
            part(
                "bindings/python/src/dpb/_bandit.py",
                &[("select", &select), ("select_many", &select_many), ("check", &check)],
            ),
            part(
                "bindings/cpp/dpb_metrics.hpp",
                &[("report", &cpp[0]), ("arms", &cpp[1]), ("diagnostics", &cpp[2]), ("verdicts", &cpp[3])],
            ),
            part(
                "bindings/go/prometheus/collector.go",
                &[("report", &go[0]), ("arms", &go[1]), ("diagnostics", &go[2]), ("verdicts", &go[3])],
            ),
            part(
                "bindings/java/micrometer/src/main/java/io/github/libdpb/micrometer/DpbMetrics.java",
                &[("report", &java[0]), ("arms", &java[1]), ("diagnostics", &java[2]), ("verdicts", &java[3])],
            ),
            part("bindings/cpp/dpb_fleet.hpp", &[("node_report", &cpp[4]), ("rewards", &cpp[5])]),
            part("bindings/go/prometheus/fleet/collector.go", &[("node_report", &go[4]), ("rewards", &go[5])]),
            part(
                "bindings/java/micrometer/src/main/java/io/github/libdpb/micrometer/FleetMetrics.java",
                &[("node_report", &java[4]), ("rewards", &java[5])],
            ),
            part("bindings/lua/dpb.lua", &[("arm", &report::arm_of_lua(self)), ("lists", &request::in_lua(self))]),
            part("docs/reference/policies.md", &[("policies", &all), ("costs", &costs)]),
            part("docs/operating/restarts.md", &[("retuning", &retuning)]),
            part("src/ffi/snapshot.rs", &[("restart", &restart), ("snapshot", &can("snapshot", "With a snapshot:"))]),
            part("src/ffi/arms.rs", &[("prior", &can("prior", "For"))]),
            part("src/ffi/fleet.rs", &[("merge", &can("merge", "For"))]),
            part("src/ffi/report.rs", &[("decide", &can("decide", "For dpb_new_lap if its base decides, and for"))]),
            part("src/ffi/request.rs", &[("slate", &can("slate", "For"))]),
            part("src/bandit/persist.rs", &[("restart", &doc)]),
            part("tests/fuzz/calls.rs", &[("constructors", &names)]),
            part("tests/c/memory.c", &[("constructors", &names)]),
            part("bindings/go/dpb_test.go", &[("constructors", &constructed)]),
            part("tests/fuzz/statuses.rs", &[("functions", &functions::checked(&ffi))]),
        ]);
        files
    }
}

/// What Python says of parts, whose names it knows.
const PARTS_IN_PYTHON: &str = "None = a decision has one reward. Otherwise it is a sum of parts that come at different times: \
                               their names, and what one unit of each is worth in the unit of the reward, such as \
                               ``{\"click\": 0.1, \"bought\": 0.01, \"returned\": -0.01}``; at most 8. When the reward_window is \
                               over, the reward is the sum of weights times values, moved into the declared range; a part \
                               that nobody reports is 0. Without a name Bandit.update reports the first part. Needs a \
                               reward_window, reward_bits above 0, and a declared range that contains 0.";

/// Where Go's directives for its calls of C go.
const CGO: &str = "@cgo\n";

const RUST_HEAD: &str = "//! Generated by tests/table.rs from src/tables and src/policy/policies.rs: change these, then run\n\
                         //! `DPB_BLESS=1 cargo test -p dpb-tests --test header`.\n";

/// dp-ucb-bound -> ucb_bound.
fn short(policy: &Policy) -> String {
    policy.label.trim_start_matches("dp-").replace('-', "_")
}

fn words(text: &'static str) -> Vec<&'static str> {
    text.split_whitespace().collect()
}

/// The text with another part between its two lines that contain `begin generated NAME` and `end generated NAME`.
fn splice(path: &str, text: &str, name: &str, part: &str) -> String {
    let line = |what: &str| {
        let mark = format!("{what} generated {name}");
        text.find(&mark).unwrap_or_else(|| panic!("{path} has no line with: {mark}"))
    };
    let begin = line("begin") + text[line("begin")..].find('\n').unwrap() + 1;
    let end = text[..line("end")].rfind('\n').unwrap() + 1;
    [&text[..begin], part, &text[end..]].concat()
}

/// Compares all files with what the tables say, or writes them. Returns those that have drifted.
pub fn drifted(root: &Path, write: bool) -> Vec<&'static str> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let read_all = |directory: &str| {
        let entries = std::fs::read_dir(root.join(directory)).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
        files.sort();
        files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect::<String>()
    };
    let mut drifted = Vec::new();
    for (path, fresh) in Tables::new().files(&read, &read_all) {
        if read(path) == fresh {
            continue;
        }
        match write {
            true => std::fs::write(root.join(path), fresh).unwrap(),
            false => drifted.push(path),
        }
    }
    drifted
}

/// The constructors of the library's own policies, for cbindgen; and those of the papers' policies and of the baselines.
pub fn constructors() -> [String; 2] {
    let all = Tables::new();
    [all.constructors(&["Ours"]), all.constructors(&["Papers", "Baselines", "Shuffle", "Local"])]
}

/// The sizes of structs, for the header's own check.
pub fn sizes() -> Vec<(&'static str, usize)> {
    let all = Tables::new();
    let reports = all.reports.iter().map(|report| report.size(&all));
    [("dpb_config", size(&all.members())), request::size_in_c(&all)].into_iter().chain(reports).collect()
}

#[allow(dead_code, reason = "the test uses the functions above")]
fn main() {
    drifted(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")), true);
}
