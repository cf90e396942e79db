//! A request in the other languages, from src/tables/request.rs.

use super::{Language, Member, RUST_HEAD, Tables, camel, growing, java, layout, show, size, wrap};

/// A row of the table.
pub struct Field {
    docs: Vec<&'static str>,
    pub name: &'static str,
    kind: Kind,
    default: &'static str,
    since: &'static str,
}

enum Kind {
    /// u32 or u64.
    Number(&'static str),
    /// bool; in C a u32, 0 or 1.
    Flag,
    /// The type of its elements, and what its length is.
    List(&'static str, &'static str),
    /// The rows of features: the members of C after the first.
    Rows(Vec<(Vec<&'static str>, &'static str, &'static str)>),
}

macro_rules! requests {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident: $type:ty = $default:expr, $since:literal $(, $length:literal)?
        $({$($(#[doc = $of_member:literal])* $member:ident: $of:ty;)*})?;
    )*) => {
        pub fn request() -> Vec<Field> {
            vec![$(Field {
                docs: vec![$($doc),*],
                name: stringify!($name),
                kind: match stringify!($type) {
                    "u32" => Kind::Number("u32"),
                    "u64" => Kind::Number("u64"),
                    "bool" => Kind::Flag,
                    "Option<&'a [u32]>" => Kind::List("u32", concat!($($length)?)),
                    "Option<&'a [f64]>" => Kind::List("f64", concat!($($length)?)),
                    _ => Kind::Rows(vec![$($((vec![$($of_member),*], stringify!($member), stringify!($of))),*)?]),
                },
                default: stringify!($default),
                since: $since,
            }),*]
        }
    };
}

include!("../../src/tables/request.rs");

/// The type of a list's elements in C, Go and cgo.
fn c(of: &str) -> &'static str {
    if of == "u32" { "uint32_t" } else { "double" }
}

/// A member of dpb_request that a caller sets: its name in C, its type in C, and its value in Go with the Request `r`.
struct Part {
    name: String,
    c: String,
    go: String,
    /// For an address in Go: the number of its elements.
    length: Option<String>,
}

impl Field {
    fn parts(&self) -> Vec<Part> {
        let (name, go) = (self.name, camel(self.name));
        let part = |name: &str, c: &str, go: String, length: Option<&str>| Part {
            name: name.to_owned(),
            c: c.to_owned(),
            go,
            length: length.map(str::to_owned),
        };
        match &self.kind {
            Kind::Number(of) => {
                let c = if *of == "u32" { "uint32_t" } else { "uint64_t" };
                let value = if name == "slots" { "r.slots()".to_owned() } else { format!("r.{go}") };
                assert!(name == "slots" || self.default == "0", "{name}: Go's zero value is its default");
                vec![part(name, &format!("{c} "), format!("C.{c}({value})"), None)]
            }
            Kind::Flag => vec![part(name, "uint32_t ", format!("number(r.{go})"), None)],
            Kind::List(of, _) => {
                let length = format!("len(r.{go})");
                vec![
                    part(
                        name,
                        &format!("const {} *", c(of)),
                        format!("(*C.{})(unsafe.SliceData(r.{go}))", c(of)),
                        Some(&length),
                    ),
                    part(&format!("{name}_len"), "size_t ", format!("C.size_t({length})"), None),
                ]
            }
            Kind::Rows(_) => vec![
                part("features", "const float *", "rows.features".to_owned(), Some("len(r.Features)")),
                part("sparse", "const dpb_feature *", "rows.sparse".to_owned(), Some("len(r.Sparse)")),
                part("sparse_ends", "const uint32_t *", "rows.sparse_ends".to_owned(), Some("len(r.SparseEnds)")),
                part("features_len", "size_t ", "rows.features_len".to_owned(), None),
                part("sparse_ends_len", "size_t ", "rows.sparse_ends_len".to_owned(), None),
            ],
        }
    }

    fn text(&self, tables: &Tables, language: Language) -> String {
        let text = tables.text(&self.docs, language);
        match self.default {
            "0" | "None" | "false" => text,
            default => format!("{text} Default {default}."),
        }
    }
}

fn members(tables: &Tables) -> Vec<Member> {
    let size = "sizeof(dpb_request). dpb_request_init sets it, so that the struct can grow.";
    let mut all = vec![Member::new(size, "struct_size", "u32", "0.1")];
    for field in &tables.request {
        let (name, since, text) = (field.name, field.since, field.text(tables, Language::C));
        match &field.kind {
            Kind::Number(of) => all.push(Member::new(text, name, of, since)),
            Kind::Flag => all.push(Member::new(format!("0 or 1. {text}"), name, "u32", since)),
            Kind::List(of, length) => {
                all.push(Member::new(text, name, if *of == "u32" { "*const u32" } else { "*const f64" }, since));
                all.push(Member::new(format!("Its length: {length}."), format!("{name}_len"), "usize", since));
            }
            Kind::Rows(more) => {
                all.push(Member::new(text, name, "*const f32", since));
                for (docs, name, of) in more {
                    all.push(Member::new(tables.text(docs, Language::C), *name, of, since));
                }
            }
        }
    }
    layout(all.into_iter())
}

/// Its size in C.
pub fn size_in_c(tables: &Tables) -> (&'static str, usize) {
    ("dpb_request", size(&members(tables)))
}

/// src/ffi/generated/request.rs.
pub fn in_c(tables: &Tables) -> String {
    let members = members(tables);
    let (mut defaults, mut checks, mut read) = (String::new(), String::new(), String::new());
    for Member { name, .. } in &members {
        let field = tables.request.iter().find(|field| field.name == *name);
        if let Some(default) = field.map(|field| field.default).filter(|zero| !["0", "false", "None"].contains(zero)) {
            defaults += &format!("            {name}: {default},\n");
        }
        if name.starts_with("reserved") {
            checks += &format!(
                "        if self.{name} != 0 {{\n            \
                 return Err(Error::request(\"{name}\", \"must be 0\", self.{name}));\n        }}\n"
            );
        }
    }
    for Field { name, kind, .. } in &tables.request {
        let value = match kind {
            Kind::Number(_) => format!("self.{name}"),
            Kind::Flag => format!("flag(self.{name}, \"{name}\")?"),
            Kind::List(..) => format!("list(self.{name}, self.{name}_len, [\"{name}_len\", \"{name}\"])?"),
            Kind::Rows(_) => "self.rows()?".to_owned(),
        };
        read += &format!("                {name}: {value},\n");
    }
    let error = if checks.is_empty() { "Result" } else { "{Error, Result}" };
    format!(
        r#"//! dpb_request, and what it says as a [`Request`].
//!
{RUST_HEAD}
use crate::error::{error};
use crate::ffi::request::{{dpb_feature, flag, list}};
use crate::ffi::sized::Growing;
use crate::request::Request;

/// One request for a decision. Fill it with dpb_request_init, then set its other fields. All of it is public:
/// compute nothing in it from rewards.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dpb_request {{
{}}}

const _: () = assert!(size_of::<*const u8>() != 8 || size_of::<dpb_request>() == {});

{}impl dpb_request {{
    /// What dpb_request_init fills in, for those who call the interface from Rust.
    pub const fn defaults() -> dpb_request {{
        dpb_request {{
            struct_size: size_of::<dpb_request>() as u32,
{defaults}            // SAFETY: numbers and addresses all.
            ..unsafe {{ std::mem::zeroed() }}
        }}
    }}

    /// # Safety
    /// Its lists and rows are valid for the lengths beside them while the result is used.
    #[inline(always)]
    pub(in crate::ffi) unsafe fn request<'a>(&self) -> Result<Request<'a>> {{
{checks}        // SAFETY: as above.
        unsafe {{
            Ok(Request {{
{read}            }})
        }}
    }}
}}
"#,
        show(&members),
        size(&members),
        growing("dpb_request", &members, "numbers and addresses"),
    )
}

/// The setters of lists in C++.
pub fn in_cpp(tables: &Tables) -> String {
    let mut setters = String::new();
    for field in &tables.request {
        let Kind::List(of, _) = field.kind else { continue };
        let (name, element) = (field.name, if of == "u32" { "std::uint32_t" } else { "double" });
        let set = match name {
            "eligible" => "among".to_owned(),
            "values" => "worth".to_owned(),
            _ => format!("with_{name}"),
        };
        let text = format!(
            "Sets dpb_request.{name}, from a vector, an array or a span, which must outlive the request and may be empty."
        );
        setters += &format!(
            r#"{}  template <class Array> Request &{set}(const Array &list) noexcept {{
    return {set}(std::data(list), std::size(list));
  }}
  /// The same for a request that lives within one expression.
  Request &{set}(std::initializer_list<{element}> list) noexcept {{ return {set}(list.begin(), list.size()); }}
  Request &{set}(const {element} *list, std::size_t n) noexcept {{
    static const {element} none = 0;
    {name} = list == nullptr ? &none : list; // a list without elements may be at NULL, which is the default
    {name}_len = n;
    return *this;
  }}
"#,
            wrap(&text, "  /// ", 122)
        );
    }
    setters
}

/// The preamble of bindings/go/table.go: how a request reaches C; and its struct and what calls C with it.
pub fn in_go(tables: &Tables) -> [String; 2] {
    let mut structure = String::new();
    for field in &tables.request {
        let of = match field.kind {
            Kind::Number("u32") => "uint32",
            Kind::Number(_) => "uint64",
            Kind::Flag => "bool",
            Kind::List("u32", _) => "[]uint32",
            Kind::List(..) => "[]float64",
            Kind::Rows(_) => "[]float32",
        };
        let mut text = field.text(tables, Language::Go);
        if field.name == "slots" {
            text = text.replace(" Default 1.", " 0 means 1.");
        }
        structure += &format!("{}\t{} {of}\n", wrap(&text, "\t// ", 118), camel(field.name));
    }
    let parts: Vec<Part> = tables.request.iter().flat_map(Field::parts).collect();
    let all = |of: &dyn Fn(&Part) -> String, between: &str| parts.iter().map(of).collect::<Vec<_>>().join(between);
    // Words that a line does not break keep their spaces.
    let lines = |text: String, prefix: &str, end: &str| {
        let text = text.replace(' ', "\u{1}").replace(",\u{1}", ", ");
        wrap(&text, prefix, 116).trim().replace('\u{1}', " ").replace('\n', end)
    };
    let parameters = lines(all(&|part| format!("{}{}", part.c, part.name), ", "), "  ", " \\\n");
    let arguments = lines(all(&|part| part.name.clone(), ", "), "  ", " \\\n");
    let places = lines(all(&|part| format!("{}_", part.name), ", "), "  ", "\n");
    let set = all(&|part| format!("  request->{0} = {0};\n", part.name), "");
    let unpacked = all(
        &|part| match part.c.strip_suffix('*') {
            Some(_) => format!("({})(uintptr_t)p[{}_]", part.c, part.name),
            None => format!("({})p[{}_]", part.c.trim(), part.name),
        },
        ", ",
    );
    let unpacked = lines(unpacked, "         ", "\n");
    let preamble = format!(
        r#"#include <dpb.h>

// What a request says, as parameters and as arguments.
#define PARAMETERS \
  {parameters}
#define ARGUMENTS \
  {arguments}

// Go memory that C sees may hold no Go pointer, so the dpb_request is made here.
static inline void fill(dpb_request *request, PARAMETERS) {{
  dpb_request_init(request);
{set}}}
static inline dpb_status decide(dpb_bandit *bandit, PARAMETERS, dpb_decision *out) {{
  dpb_request request;
  fill(&request, ARGUMENTS);
  return dpb_select_for(bandit, &request, out);
}}
static inline dpb_status request_check(dpb_bandit *bandit, PARAMETERS, dpb_error *error) {{
  dpb_request request;
  fill(&request, ARGUMENTS);
  return dpb_request_check(bandit, &request, error);
}}
static inline dpb_status predict(dpb_bandit *bandit, PARAMETERS, double *mean, double *deviation, size_t cap, size_t *n) {{
  dpb_request request;
  fill(&request, ARGUMENTS);
  return dpb_predict(bandit, &request, mean, deviation, cap, n);
}}
static inline dpb_status read_weights(dpb_bandit *bandit, PARAMETERS, uint64_t *weights, size_t cap, size_t *n, dpb_error *error) {{
  dpb_request request;
  fill(&request, ARGUMENTS);
  return dpb_weights(bandit, &request, weights, cap, n, error);
}}
static inline dpb_status record(dpb_bandit *bandit, uint64_t version, uint64_t id, PARAMETERS, dpb_decision *out) {{
  dpb_request request;
  fill(&request, ARGUMENTS);
  return dpb_record(bandit, version, id, &request, out);
}}

// The fields of a Request as numbers, in the order of this array. Addresses are pinned.
enum {{
  {places}, packed_len
}};
typedef uint64_t packed_request[packed_len];
enum {{ pieces = 64 }};
static inline dpb_status decide_many(dpb_bandit *bandit, const packed_request *packed, size_t n, dpb_decision *out, size_t *done) {{
  dpb_request requests[pieces];
  size_t i;
  for (i = 0; i < n; i++) {{
    const uint64_t *p = packed[i];
    fill(&requests[i],
         {unpacked});
  }}
  return dpb_select_many(bandit, requests, n, out, done);
}}
"#
    );
    let given = all(&|part| part.go.clone(), ", ");
    let mut pack = String::new();
    for part in &parts {
        pack += &match &part.length {
            Some(length) => format!("\tpin(C.{}_, unsafe.Pointer({}), {length})\n", part.name, part.go),
            None => format!("\tto[C.{}_] = C.uint64_t({})\n", part.name, part.go),
        };
    }
    let lengths = tables.request.iter().filter(|field| matches!(field.kind, Kind::List(..)));
    let lengths: Vec<String> =
        lengths.map(|field| format!("\"{}_len\": \"len({})\"", field.name, camel(field.name))).collect();
    let code = format!(
        r#"
// Request describes a request for one or more decisions. All of it is public. Do not compute anything in it from rewards.
type Request struct {{
{structure}	// The same rows: the features that are not 0. Set it instead of Features.
	Sparse []Feature
	// For each row, the number of entries of Sparse up to the end of that row.
	SparseEnds []uint32
}}

func (r *Request) decide(c *C.dpb_bandit, out *C.dpb_decision) C.dpb_status {{
	rows := r.rows()
	return C.decide(c, {given}, out)
}}

func (r *Request) check(c *C.dpb_bandit, failure *C.dpb_error) C.dpb_status {{
	rows := r.rows()
	return C.request_check(c, {given}, failure)
}}

func (r *Request) predict(c *C.dpb_bandit, mean, deviation *C.double, room C.size_t, n *C.size_t) C.dpb_status {{
	rows := r.rows()
	return C.predict(c, {given}, mean, deviation, room, n)
}}

func (r *Request) weights(c *C.dpb_bandit, weights *C.uint64_t, room C.size_t, n *C.size_t, failure *C.dpb_error) C.dpb_status {{
	rows := r.rows()
	return C.read_weights(c, {given}, weights, room, n, failure)
}}

func (r *Request) record(c *C.dpb_bandit, version, id C.uint64_t, out *C.dpb_decision) C.dpb_status {{
	rows := r.rows()
	return C.record(c, version, id, {given}, out)
}}

// packed is a request as numbers, and C decides so many at once.
type packed = [C.packed_len]C.uint64_t

const pieces = C.pieces

func decideMany(c *C.dpb_bandit, all *packed, n C.size_t, out *C.dpb_decision, done *C.size_t) C.dpb_status {{
	return C.decide_many(c, all, n, out, done)
}}

// pack writes the request as numbers. It passes addresses to pin, with their positions and the numbers of elements.
func (r *Request) pack(to *packed, pin func(position int, first unsafe.Pointer, n int)) {{
	rows := r.rows()
{pack}}}

// lengths has Go's names for the lengths of lists.
var lengths = map[string]string{{{}, "features_len": "len(Features)", "sparse_ends_len": "len(SparseEnds)"}}
"#,
        lengths.join(", ")
    );
    [preamble, code]
}

/// What Python needs: the signatures and texts of select, select_many and check with what they are given, and the kinds of
/// all fields.
pub fn in_python(tables: &Tables) -> [String; 4] {
    let (mut keywords, mut arrays, mut texts) = (String::new(), String::new(), String::new());
    let (mut given, mut given_many, mut kinds) = (Vec::new(), Vec::new(), String::new());
    for field in tables.request.iter().filter(|field| field.name != "slots") {
        let name = field.name;
        let (of, kind) = match field.kind {
            Kind::Number(of) => ("int", of),
            Kind::Flag => ("bool", "flag"),
            Kind::List("u32", _) => ("Sequence[int] | Array", "u32[]"),
            Kind::List(..) => ("Sequence[float] | Array", "f64[]"),
            Kind::Rows(_) => ("Array", ""),
        };
        keywords += &format!("        {name}: {of} | None = None,\n");
        arrays += &format!("        {name}: Array | None = None,\n");
        given.push(format!("\"{name}\": {name}"));
        if kind.is_empty() {
            keywords += "        sparse: Any = None,\n";
            given.push("\"sparse\": sparse".to_owned());
            texts += "            features: with features = d, float32 of shape (d,) with model_per_arm, else (arms, d), a row \
                      for each\n                eligible arm. A contiguous array of float32 is not copied.\n            sparse: \
                      the same rows as mappings of indices to values: one, or a sequence; or a CSR matrix of scipy.\n";
        } else {
            given_many.push(format!("\"{name}\": {name}"));
            kinds += &format!("    \"{name}\": \"{kind}\",\n");
            let text = format!("{name}: {}", field.text(tables, Language::Python));
            let text = wrap(&text, "                ", 116);
            texts += &format!("            {}\n", text.trim());
        }
    }
    let dict = |items: &[String]| {
        let lines: String = items.iter().map(|item| format!("            {item},\n")).collect();
        format!("{{\n{lines}        }}")
    };
    let (given, given_many) = (dict(&given), dict(&given_many));
    let select = format!(
        r#"    @overload
    def select(
        self,
        *,
        slots: None = None,
{keywords}    ) -> Decision: ...

    @overload
    def select(
        self,
        *,
        slots: int,
{keywords}    ) -> list[Decision]: ...

    def select(
        self,
        *,
        slots: int | None = None,
{keywords}    ) -> Decision | list[Decision]:
        """Chooses an arm. All arguments are public: compute nothing in them from rewards.

        Args:
            slots: the number of different arms to choose; then the result is a list of decisions, each with a ticket.
{texts}        """
        given = {given}
"#
    );
    let select_many = format!(
        r#"    def select_many(
        self,
        n: int | None = None,
        *,
        slots: int = 1,
{arrays}    ) -> np.ndarray[Any, Any]:
        """Decides n requests under one lock, until one is refused.

        Args:
            n: the number of requests; it follows from the lengths of the other arguments.
            slots: the number of different arms for each request.
            features: float32 of shape (n, d) with model_per_arm, else (n, arms, d). Not copied if contiguous.
            The others are those of select: a number, or an array of n; one list for all requests, or a list for each.

        Returns:
            A structured array of dpb.DECISION, of shape (n,), or (n, slots) with slots > 1.

        Raises:
            Error: of the first refused request. Its ``decisions`` are those made before.
        """
        given = {given_many}
"#
    );
    let check = format!(
        r#"    def check(
        self,
        *,
        slots: int | None = None,
{keywords}    ) -> None:
        """Raises the error with which select would refuse a request now. Changes and counts nothing."""
        given = {given}
"#
    );
    [select, select_many, check, kinds]
}

/// The lists of a request in Lua.
pub fn in_lua(tables: &Tables) -> String {
    let mut lists = String::new();
    for field in &tables.request {
        let of = match field.kind {
            Kind::Number(_) | Kind::Flag => continue,
            Kind::List(of, _) => c(of),
            Kind::Rows(_) => "float",
        };
        lists += &format!("  {} = \"{of}[?]\",\n", field.name);
    }
    lists
}

/// The names of lists in C, but for those of features.
pub fn lists(tables: &Tables) -> impl Iterator<Item = String> + '_ {
    tables.request.iter().filter(|field| matches!(field.kind, Kind::List(..))).map(|field| field.name.to_owned())
}

/// Request.java.
pub fn in_java(tables: &Tables) -> String {
    let (mut fields, mut methods) = (String::new(), String::new());
    let (mut bytes, mut set, mut lists) = (String::new(), String::new(), [String::new(), String::new()]);
    for field in &tables.request {
        let name = java::camel(field.name);
        let at = |member: &str| format!("at + Native.dpb_request.{member}");
        let (of, default) = match field.kind {
            Kind::Number("u32") => ("int", if field.default == "0" { "" } else { " = 1" }),
            Kind::Number(_) => ("long", ""),
            Kind::Flag => ("boolean", ""),
            Kind::List("u32", _) => ("int[]", ""),
            Kind::List(..) => ("double[]", ""),
            Kind::Rows(_) => ("float[]", ""),
        };
        fields += &format!("    private {of} {name}{default};\n");
        let text = field.text(tables, Language::Java);
        let more = if of.ends_with("[]") { " The array is not copied: it is read when the request is." } else { "" };
        let unset = if name == "features" { "        sparseEnds = null;\n" } else { "" };
        methods += &format!(
            "{}    public Request {name}({of} {name}) {{\n        this.{name} = {name};\n{unset}        return this;\n    }}\n\n",
            java::javadoc(&format!("{text}{more}"), "    ")
        );
        set += &match field.kind {
            Kind::Number("u32") => format!("        m.set(JAVA_INT, {}, {name});\n", at(field.name)),
            Kind::Number(_) => format!("        m.set(JAVA_LONG, {}, {name});\n", at(field.name)),
            Kind::Flag => format!("        m.set(JAVA_INT, {}, {name} ? 1 : 0);\n", at(field.name)),
            Kind::List(..) | Kind::Rows(_) => {
                let (layout, size, place) = match of {
                    "double[]" => ("JAVA_DOUBLE", 8, 0),
                    "int[]" => ("JAVA_INT", 4, 1),
                    _ => ("JAVA_FLOAT", 4, 1),
                };
                bytes += &format!("\n                + {size}L * ({name} == null ? 0 : {name}.length)");
                lists[place] += &format!(
                    "        {of} {name} = this.{name};\n        if ({name} != null) {{\n            MemorySegment.copy({name}, 0, m, {layout}, end, \
                     {name}.length);\n            m.set(JAVA_LONG, {}, m.address() + end);\n            \
                     m.set(JAVA_LONG, {}, {name}.length);\n            end += {size}L * {name}.length;\n        }}\n",
                    at(field.name),
                    at(&format!("{}_len", field.name)),
                );
                continue;
            }
        };
    }
    let [large, small] = lists;
    format!(
        r#"
import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.MemorySegment;

/**
 * A request for one or more decisions. All of it is public: compute nothing in it from rewards. A request may be used
 * again, with other values in its fields. One thread at a time may use it.
 */
public final class Request {{
{fields}    private int[] sparseIndices;
    private float[] sparseValues;
    private int[] sparseEnds;

    /** A request for one slot, of all live arms. */
    public Request() {{}}

{methods}    /**
     * The rows of {{@link #features}}, in place of them: only the features that are not 0. A feature that occurs twice
     * counts as the sum. The arrays are not copied: they are read when the request is.
     *
     * @param indices of the features, each below {{@link Config#features}}, row after row
     * @param values of these features, finite
     * @param ends for each row the number of indices up to its end
     */
    public Request sparse(int[] indices, float[] values, int... ends) {{
        features = null;
        sparseIndices = indices;
        sparseValues = values;
        sparseEnds = ends;
        return this;
    }}

    /** Returns the number of slots. */
    public int slots() {{
        return slots;
    }}

    /** The number of bytes that {{@link #write}} needs for lists, and 8 more. */
    long bytes() {{
        if (sparseEnds != null) {{
            if (sparseIndices == null || sparseValues == null) {{
                throw DpbException.request("sparse needs indices and values");
            }}
            int n = sparseEnds.length;
            if (sparseIndices.length != sparseValues.length) {{
                throw DpbException.request(
                        sparseIndices.length + " indices, but " + sparseValues.length + " values of sparse features");
            }}
            if (n > 0 && sparseEnds[n - 1] != sparseIndices.length) {{
                throw DpbException.request("the last end of sparse is " + sparseEnds[n - 1] + ", and there are "
                        + sparseIndices.length + " indices");
            }}
        }}
        return 8L
                + (sparseEnds == null ? 0 : 8L * sparseIndices.length + 4L * sparseEnds.length){bytes};
    }}

    /**
     * Writes a dpb_request at one place of these bytes, and its lists at another. Returns the end of these. A field is
     * read once, so that another thread that changes it cannot make a list longer than its memory.
     */
    long write(MemorySegment m, int slots, long at, long end) {{
        for (long i = 0; i < Native.dpb_request.SIZE; i += 8) {{ // a slice to fill might be allocated
            m.set(JAVA_LONG, at + i, 0);
        }}
        m.set(JAVA_INT, at + Native.dpb_request.struct_size, (int) Native.dpb_request.SIZE);
{set}{large}        int[] ends = sparseEnds;
        if (ends != null) {{
            int[] indices = sparseIndices;
            float[] of = sparseValues;
            int n = indices.length;
            m.set(JAVA_LONG, at + Native.dpb_request.sparse, m.address() + end);
            m.set(JAVA_LONG, at + Native.dpb_request.features_len, n);
            for (int i = 0; i < n; i++, end += Native.dpb_feature.SIZE) {{
                m.set(JAVA_INT, end + Native.dpb_feature.index, indices[i]);
                m.set(JAVA_FLOAT, end + Native.dpb_feature.value, of[i]);
            }}
            MemorySegment.copy(ends, 0, m, JAVA_INT, end, ends.length);
            m.set(JAVA_LONG, at + Native.dpb_request.sparse_ends, m.address() + end);
            m.set(JAVA_LONG, at + Native.dpb_request.sparse_ends_len, ends.length);
            end += 4L * ends.length;
        }}
{small}        return (end + 7) & ~7L;
    }}
}}
"#
    )
}
