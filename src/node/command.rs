//! The thirteen commands of a fleet's store: keys, arguments, reply and effect of each.
//!
//! **Form.** A command is one script. Its keys begin with `dpb:{NAME}`, so a cluster keeps them on one server. Its arguments
//! are bytes, and numbers are decimal digits. The first three name the *member*: its number, its incarnation (how many
//! processes have had the number) and its life (a random number of the process). The reply is one byte string of items, each
//! its length, a colon and its bytes. The first one is `ok`, or why nothing has changed: `replaced` (another life has the
//! number, with the same or a later incarnation), for TAKE `taken` and `full`, for ROUND `late`.
//!
//! **Repeats.** A command may run twice, late, or with an unknown outcome: the node sends it again until a reply comes. The
//! fifth column of the table says why that does no harm.
//!
//! **Tables.** In Redis each is a hash, and `alive` a sorted set. `records` has for each number `INCARNATION LIFE END
//! SENT DRAINING`. `counts` has `beats`, `breaks` (how often a node was gone or came back, or the store went back),
//! `broken` (the beat after which the last of them may have lost something; 0: anything) and `news`. `rewards:N`,
//! `states:N` and `contributions:G` are queues: messages with numbers, and `q`. A reader acknowledges with the number
//! of the last message and its first two words, which no other message has; so a store that went back, and counts
//! again, deletes nothing that the reader has not seen.
//!
#![doc = include_str!("commands.md")]

use sha1_smol::Sha1;
use std::ffi::{CStr, CString};
use std::sync::LazyLock;

/// The version of a number that has no snapshot, as text.
pub const NO_VERSION: &str = "00000000000000000000";

/// One of the thirteen commands.
#[allow(missing_docs)] // the module has a table of them
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommandKind {
    Take,
    Round,
    Put,
    News,
    Lead,
    Contribute,
    Collect,
    Keep,
    Offer,
    Host,
    Entrust,
    Adopt,
    Leave,
}

impl CommandKind {
    /// All of them, in the order of the scripts.
    pub const ALL: [CommandKind; 13] = {
        use CommandKind::*;
        [Take, Round, Put, News, Lead, Contribute, Collect, Keep, Offer, Host, Entrust, Adopt, Leave]
    };

    /// The script for Redis and Valkey.
    pub fn script(self) -> &'static CStr {
        &SCRIPTS[self as usize].0
    }

    /// The SHA-1 of the script as hexadecimal digits, for EVALSHA.
    pub fn sha1(self) -> &'static CStr {
        &SCRIPTS[self as usize].1
    }
}

/// The script of each command, and its SHA-1.
static SCRIPTS: LazyLock<Vec<(CString, CString)>> = LazyLock::new(|| {
    let mut sections = include_str!("scripts.lua").split("\n---- ");
    let common = sections.next().unwrap_or_default();
    let scripts = sections.map(|section| format!("{common}\n-- {section}"));
    let named = |script: String| {
        let sha1 = Sha1::from(&script).digest().to_string();
        [script, sha1].map(|text| CString::new(text).unwrap_or_default()).into()
    };
    scripts.map(named).collect()
});

/// A command for the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Which one it is.
    pub kind: CommandKind,
    /// The keys of Redis that it uses.
    pub keys: Vec<Vec<u8>>,
    /// Its arguments.
    pub args: Vec<Vec<u8>>,
}

/// A process that holds a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// The number, 1 to 65535.
    pub number: u16,
    /// How many processes have had the number, this one included.
    pub incarnation: u32,
    /// A random number of the process. 0: none, or every one.
    pub life: u64,
}

/// A version of a snapshot: the incarnation of its writer, and how many snapshots it wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u64);

impl Version {
    /// The first of an incarnation.
    pub fn first(incarnation: u32) -> Version {
        Version(u64::from(incarnation) << 32)
    }

    /// As 20 digits, which are ordered like versions.
    pub fn text(self) -> String {
        format!("{:010}{:010}", self.0 >> 32, self.0 & 0xffff_ffff)
    }

    fn read(text: &[u8]) -> Option<Version> {
        let text = std::str::from_utf8(text).ok().filter(|text| text.len() == 20 && text.is_ascii())?;
        let [incarnation, count] = [&text[..10], &text[10..]].map(|half| half.parse::<u32>().ok());
        Some(Version(u64::from(incarnation?) << 32 | u64::from(count?)))
    }
}

/// The position in a queue up to which a reader has read: the number of the last message, and its mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    last: u64,
    mark: Vec<u8>,
}

impl Position {
    /// The position after this message.
    pub fn after(message: &Message) -> Position {
        let spaces = message.bytes.iter().enumerate().filter(|(_, byte)| **byte == b' ');
        let mark = spaces.map(|(at, _)| at + 1).nth(1).unwrap_or(message.bytes.len());
        Position { last: message.number, mark: message.bytes[..mark].to_vec() }
    }
}

/// What one command reads at most from a queue, or of the news.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Portion {
    /// Messages or snapshots.
    pub items: u64,
    /// Bytes, unless the first one has more.
    pub bytes: u64,
}

/// How much a queue keeps, and how long after its last message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Messages. One more pushes out the oldest one.
    pub messages: u64,
    /// Milliseconds.
    pub lifetime: u64,
}

/// What a ROUND asks for, besides its rewards.
#[derive(Clone, Debug, Default)]
pub struct Beat {
    /// The lease in milliseconds.
    pub lease: u64,
    /// The number of the beat in the last reply. If the store has an older one of this node, it has gone back: a break, and
    /// nobody is late or gone.
    pub last: u64,
    /// Nodes whose last beat is at most this one are late.
    pub late: u64,
    /// Nodes whose last beat is at most this one are gone.
    pub gone: u64,
    /// How many numbers the node knows: if that is wrong, the reply has all.
    pub known: u64,
    /// The reply has the numbers whose lease runs, in place of all numbers.
    pub held: bool,
    /// What the node has read of its rewards.
    pub read: Position,
    /// How many more it reads.
    pub portion: Portion,
    /// Until when by the store's clock the round counts; 0: always. A later one beats no more: its node may be dead.
    pub due: u64,
}

/// A reward on its way: the number that gets it, and the bytes.
pub type Outgoing = (u16, Vec<u8>);

/// The names of a bandit's tables.
#[derive(Clone, Debug)]
pub struct Tables(String);

type Bytes = Vec<u8>;

fn text(value: impl ToString) -> Bytes {
    value.to_string().into_bytes()
}

fn flag(value: bool) -> Bytes {
    text(u8::from(value))
}

impl Tables {
    /// The tables of the bandit with this name.
    pub fn new(name: &str) -> Tables {
        Tables(format!("dpb:{{{name}}}"))
    }

    fn table(&self, name: &str) -> Bytes {
        format!("{}:{name}", self.0).into_bytes()
    }

    fn command(&self, kind: CommandKind, tables: &[&str], member: Member, more: Vec<Bytes>) -> Command {
        let keys = [&["records"], tables].concat().into_iter().map(|name| self.table(name)).collect();
        let mut args = vec![text(member.number), text(member.incarnation), text(member.life)];
        args.extend(more);
        Command { kind, keys, args }
    }

    /// TAKE. `number` 0 asks for the lowest that is free. A given number is only taken if `seen` is the version of its
    /// snapshot.
    pub fn take(&self, number: u16, life: u64, lease: u64, seen: Option<Version>) -> Command {
        let tables = ["alive", "counts", "versions", "snapshots"];
        let seen = seen.map_or(Vec::new(), |version| text(version.text()));
        let member = Member { number, incarnation: 0, life };
        self.command(CommandKind::Take, &tables, member, vec![text(lease), seen])
    }

    /// ROUND. `rewards` have consecutive sequences from `first` on.
    pub fn round(&self, member: Member, beat: &Beat, first: u64, rewards: &[Outgoing], limits: Capacity) -> Command {
        let mut more: Vec<Bytes> =
            [beat.lease, beat.last, beat.late, beat.gone, beat.known].into_iter().map(text).collect();
        more.extend([flag(beat.held), text(beat.read.last), beat.read.mark.clone()]);
        more.extend(
            [beat.portion.items, beat.portion.bytes, limits.messages, limits.lifetime, beat.due, first].map(text),
        );
        let mut to: Vec<u16> = rewards.iter().map(|parcel| parcel.0).collect();
        to.sort_unstable();
        to.dedup();
        for (number, bytes) in rewards {
            let key = to.partition_point(|other| other < number) + 7; // after the tables of every ROUND, from 1 on
            more.extend([text(key), bytes.clone()]);
        }
        let own = [format!("rewards:{}", member.number), format!("states:{}", member.number)];
        let mut tables = vec!["alive", "counts", "versions", &own[0], &own[1]];
        let others: Vec<String> = to.iter().map(|number| format!("rewards:{number}")).collect();
        tables.extend(others.iter().map(String::as_str));
        self.command(CommandKind::Round, &tables, member, more)
    }

    /// PUT. `news`: the other nodes need this snapshot.
    pub fn put(&self, member: Member, version: Version, news: bool, snapshot: Vec<u8>) -> Command {
        let tables = ["snapshots", "versions", "news", "counts"];
        self.command(CommandKind::Put, &tables, member, vec![text(version.text()), flag(news), snapshot])
    }

    /// NEWS, besides these.
    pub fn news(&self, member: Member, portion: Portion, known: impl Iterator<Item = (u16, Version)>) -> Command {
        let mut more = vec![text(portion.items), text(portion.bytes)];
        known.for_each(|(number, version)| more.extend([text(number), text(version.text())]));
        self.command(CommandKind::News, &["news", "snapshots"], member, more)
    }

    /// LEAD. `generation` 0 only reads. `seen` is the term in the last reply. `lease` 0 resigns.
    pub fn lead(&self, member: Member, fleet: u64, generation: u64, seen: u64, lease: u64) -> Command {
        let more = vec![text(format!("{fleet:016x}")), text(generation), text(seen), text(lease)];
        self.command(CommandKind::Lead, &["leaders"], member, more)
    }

    /// CONTRIBUTE. `sequence` makes the message's mark.
    pub fn contribute(
        &self,
        member: Member,
        generation: u64,
        sequence: u64,
        limits: Capacity,
        sums: Vec<u8>,
    ) -> Command {
        let queue = format!("contributions:{generation}");
        let more = vec![text(sequence), text(limits.messages), text(limits.lifetime), sums];
        self.command(CommandKind::Contribute, &[&queue], member, more)
    }

    /// COLLECT.
    pub fn collect(&self, member: Member, generation: u64, read: &Position, portion: Portion) -> Command {
        let more = vec![text(read.last), read.mark.clone(), text(portion.items), text(portion.bytes)];
        self.command(CommandKind::Collect, &[&format!("contributions:{generation}")], member, more)
    }

    /// KEEP, of a draining bandit.
    pub fn keep(&self, draining: Member, lease: u64, read: &Position, portion: Portion) -> Command {
        let more = vec![text(lease), text(read.last), read.mark.clone(), text(portion.items), text(portion.bytes)];
        self.command(CommandKind::Keep, &[&format!("rewards:{}", draining.number)], draining, more)
    }

    /// OFFER. `withdraw` removes all receivers, and adds none.
    pub fn offer(&self, member: Member, sequence: u64, withdraw: bool, receivers: &[u64]) -> Command {
        let mut more = vec![text(sequence), flag(withdraw)];
        more.extend(receivers.iter().map(text));
        self.command(CommandKind::Offer, &["offers"], member, more)
    }

    /// HOST. `number` 0 asks for any node that lives; `draw` is random.
    pub fn host(&self, member: Member, number: u16, draw: u32) -> Command {
        self.command(CommandKind::Host, &["alive", "offers"], member, vec![text(number), text(draw)])
    }

    /// ENTRUST, the state of this member.
    pub fn entrust(&self, member: Member, lease: u64, to: u16, receiver: u64, state: Vec<u8>) -> Command {
        let more = vec![text(lease), text(receiver), state];
        self.command(CommandKind::Entrust, &["alive", &format!("states:{to}")], member, more)
    }

    /// ADOPT. `read` acknowledges the state before.
    pub fn adopt(&self, member: Member, lease: u64, read: &Position) -> Command {
        let more = vec![text(lease), text(read.last), read.mark.clone()];
        self.command(CommandKind::Adopt, &[&format!("states:{}", member.number)], member, more)
    }

    /// LEAVE. Life 0: of a process that has died.
    pub fn leave(&self, member: Member) -> Command {
        self.command(CommandKind::Leave, &["alive", "counts"], member, Vec::new())
    }
}

/// Why a command has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another life has the number.
    Replaced,
    /// The given number is another process's for so many milliseconds more.
    Taken(u64),
    /// A round came too late; the store's time.
    Late(u64),
    /// Every number is taken.
    Full,
    /// The reply is none of this version's.
    Foreign,
}

/// The reply to a TAKE. Incarnation 0: the snapshot is not the one seen, and nothing was taken.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    pub number: u16,
    pub incarnation: u32,
    pub version: Version,
    pub snapshot: Vec<u8>,
}

/// A message of a queue.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub number: u64,
    pub bytes: Vec<u8>,
}

impl Message {
    /// What its sender sent, after the mark.
    pub fn content(&self) -> &[u8] {
        &self.bytes[Position::after(self).mark.len()..]
    }
}

/// The reply to a ROUND.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundReply {
    /// The store's time.
    pub now: u64,
    /// The number of this node's beat before; 0: it was not alive.
    pub before: u64,
    /// The number of this beat.
    pub beats: u64,
    /// Nodes that are alive, this one included.
    pub nodes: u64,
    /// How often a node was gone or came back, or the store went back.
    pub breaks: u64,
    /// The beat after which the last of them may have lost something; 0: anything.
    pub broken: u64,
    /// How often a node has put news.
    pub news: u64,
    /// States that wait for this node.
    pub states: u64,
    /// The version of this node's snapshot.
    pub stored: Version,
    /// The sequence of the last reward of this node that the store has accepted.
    pub sent: u64,
    /// How many numbers a process ever had.
    pub known: u64,
    /// Nodes that are gone by this beat, each with its last one.
    pub gone: Vec<(u16, u64)>,
    /// Late nodes, each with its last beat.
    pub late: Vec<(u16, u64)>,
    /// The numbers asked for.
    pub numbers: Vec<u16>,
    /// Rewards for this node.
    pub rewards: Vec<Message>,
}

/// A snapshot of another node.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSnapshot {
    pub number: u16,
    pub version: Version,
    pub snapshot: Vec<u8>,
}

/// The reply to a LEAD: who leads. Number 0: nobody.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    pub number: u16,
    pub generation: u64,
    pub term: u64,
}

/// The state of a node that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedState {
    /// Acknowledges it.
    pub position: Position,
    /// Its address. 0: the message is foreign.
    pub receiver: u64,
    /// Whose it is.
    pub member: Member,
    /// The reader has its number now. Otherwise another process has it, or it is the reader's own.
    pub holds: bool,
    /// Milliseconds since it was left.
    pub age: u64,
    /// The state.
    pub bytes: Vec<u8>,
}

/// Reads the items of a reply.
struct Items<'a>(&'a [u8]);

impl<'a> Items<'a> {
    fn new(reply: &'a [u8]) -> Result<Items<'a>, Refusal> {
        let mut items = Items(reply);
        match items.bytes()? {
            b"ok" => Ok(items),
            b"replaced" => Err(Refusal::Replaced),
            b"taken" => Err(Refusal::Taken(items.number()?)),
            b"late" => Err(Refusal::Late(items.number()?)),
            b"full" => Err(Refusal::Full),
            _ => Err(Refusal::Foreign),
        }
    }

    fn bytes(&mut self) -> Result<&'a [u8], Refusal> {
        let colon = self.0.iter().position(|&byte| byte == b':').ok_or(Refusal::Foreign)?;
        let len = std::str::from_utf8(&self.0[..colon]).ok().and_then(|len| len.parse::<usize>().ok());
        let (item, rest) = len.and_then(|len| self.0[colon + 1..].split_at_checked(len)).ok_or(Refusal::Foreign)?;
        self.0 = rest;
        Ok(item)
    }

    fn number<T: std::str::FromStr>(&mut self) -> Result<T, Refusal> {
        std::str::from_utf8(self.bytes()?).ok().and_then(|text| text.parse().ok()).ok_or(Refusal::Foreign)
    }

    fn version(&mut self) -> Result<Version, Refusal> {
        Version::read(self.bytes()?).ok_or(Refusal::Foreign)
    }

    fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Result<T, Refusal>) -> Result<Vec<T>, Refusal> {
        let len: usize = self.number()?;
        (0..len).map(|_| one(self)).collect()
    }

    fn messages(&mut self) -> Result<Vec<Message>, Refusal> {
        self.list(|items| Ok(Message { number: items.number()?, bytes: items.bytes()?.to_vec() }))
    }
}

/// Reads the replies. Each returns `Refusal` if nothing has changed, or if the reply is of another version.
#[allow(missing_docs, clippy::missing_errors_doc)]
pub mod reply {
    use super::{
        Items, Leadership, Member, Message, MovedState, NewSnapshot, Position, Refusal, RoundReply, Taken, Version,
    };

    pub fn take(reply: &[u8]) -> Result<Taken, Refusal> {
        let mut items = Items::new(reply)?;
        let (number, incarnation, version) = (items.number()?, items.number()?, items.version()?);
        Ok(Taken { number, incarnation, version, snapshot: items.bytes()?.to_vec() })
    }

    pub fn round(reply: &[u8]) -> Result<RoundReply, Refusal> {
        let items = &mut Items::new(reply)?;
        let beats = |items: &mut Items| Ok((items.number()?, items.number()?));
        Ok(RoundReply {
            now: items.number()?,
            before: items.number()?,
            beats: items.number()?,
            nodes: items.number()?,
            breaks: items.number()?,
            broken: items.number()?,
            news: items.number()?,
            states: items.number()?,
            stored: items.version()?,
            sent: items.number()?,
            known: items.number()?,
            gone: items.list(beats)?,
            late: items.list(beats)?,
            numbers: items.list(Items::number)?,
            rewards: items.messages()?,
        })
    }

    /// The version that the store has.
    pub fn put(reply: &[u8]) -> Result<Version, Refusal> {
        Items::new(reply)?.version()
    }

    /// Whether there are more, and the first ones.
    pub fn news(reply: &[u8]) -> Result<(bool, Vec<NewSnapshot>), Refusal> {
        let items = &mut Items::new(reply)?;
        let more = items.bytes()? == b"1";
        let each = |items: &mut Items| {
            let (number, version) = (items.number()?, items.version()?);
            Ok(NewSnapshot { number, version, snapshot: items.bytes()?.to_vec() })
        };
        Ok((more, items.list(each)?))
    }

    pub fn lead(reply: &[u8]) -> Result<Leadership, Refusal> {
        let items = &mut Items::new(reply)?;
        Ok(Leadership { number: items.number()?, generation: items.number()?, term: items.number()? })
    }

    /// Of CONTRIBUTE, ENTRUST and LEAVE.
    pub fn done(reply: &[u8]) -> Result<(), Refusal> {
        Items::new(reply).map(|_| ())
    }

    /// Of COLLECT and KEEP.
    pub fn messages(reply: &[u8]) -> Result<Vec<Message>, Refusal> {
        Items::new(reply)?.messages()
    }

    /// The receivers that nobody has taken.
    pub fn offer(reply: &[u8]) -> Result<Vec<u64>, Refusal> {
        let open = Items::new(reply)?.bytes()?;
        let words = std::str::from_utf8(open).map_err(|_| Refusal::Foreign)?.split_ascii_whitespace();
        words.map(|word| word.parse().map_err(|_| Refusal::Foreign)).collect()
    }

    /// The node and its receiver: 0 if all are taken, and node 0 if nobody offers any.
    pub fn host(reply: &[u8]) -> Result<(u16, u64), Refusal> {
        let items = &mut Items::new(reply)?;
        Ok((items.number()?, items.number()?))
    }

    pub fn adopt(reply: &[u8]) -> Result<Option<MovedState>, Refusal> {
        let items = &mut Items::new(reply)?;
        if items.number::<u64>()? == 0 {
            return Ok(None);
        }
        let (last, receiver, number) = (items.number()?, items.number()?, items.number()?);
        let (incarnation, held): (u32, u32) = (items.number()?, items.number()?);
        let member = Member { number, incarnation: incarnation.saturating_add(held), life: receiver };
        let mark = if receiver > 0 { format!("{receiver} {number} ").into_bytes() } else { Vec::new() };
        let position = Position { last, mark };
        let (age, bytes) = (items.number()?, items.bytes()?.to_vec());
        Ok(Some(MovedState { position, receiver, member, holds: held > 0, age, bytes }))
    }
}
