//! Random sequences of commands get equal replies from the scripts in a real redis-server and from `store.rs`.

use super::support::{self, coins::Coins};
use dpb::node::command::{
    Beat, Capacity, Command, CommandKind, Member, Message, Portion, Position, Tables, Version, reply,
};
use dpb::node::store;
use dpb_simulation::rows::Memory;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A redis-server of the test's own, at a socket.
pub struct Redis {
    process: Child,
    place: PathBuf,
    connection: BufReader<UnixStream>,
    /// Bytes that were sent and read.
    pub bytes: [usize; 2],
}

impl Redis {
    pub fn start(test: &str) -> Option<Redis> {
        if !support::have("redis-server") {
            return None;
        }
        let place = std::env::temp_dir().join(format!("dpb-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        let socket = place.join("redis");
        let mut command = std::process::Command::new("redis-server");
        command.args(["--save", "", "--port", "0", "--unixsocket", socket.to_str().unwrap(), "--dir"]).arg(&place);
        let process = command.stdout(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        let connection = loop {
            match UnixStream::connect(&socket) {
                Ok(connection) => break BufReader::new(connection),
                Err(error) => assert!(Instant::now() < end, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        Some(Redis { process, place, connection, bytes: [0; 2] })
    }

    /// Sends a command, and returns its reply, or the error.
    pub fn ask(&mut self, words: &[&[u8]]) -> Result<Vec<u8>, String> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.connection.get_mut().write_all(&request).unwrap();
        let mut line = String::new();
        self.connection.read_line(&mut line).unwrap();
        self.bytes = [self.bytes[0] + request.len(), self.bytes[1] + line.len()];
        let (kind, rest) = line.trim_end().split_at(1);
        match kind {
            "$" => {
                let mut text = vec![0; rest.parse::<usize>().unwrap() + 2];
                self.connection.read_exact(&mut text).unwrap();
                self.bytes[1] += text.len();
                text.truncate(text.len() - 2);
                Ok(text)
            }
            "+" | ":" => Ok(rest.into()),
            _ => Err(rest.into()),
        }
    }

    pub fn load(&mut self, script: &str) -> Vec<u8> {
        self.ask(&[b"SCRIPT", b"LOAD", script.as_bytes()]).unwrap()
    }

    /// Runs a command. `more` is a key after its own.
    pub fn run(&mut self, sha: &[u8], command: &Command, more: Option<&str>) -> Result<Vec<u8>, String> {
        let count = (command.keys.len() + usize::from(more.is_some())).to_string();
        let mut words: Vec<&[u8]> = vec![b"EVALSHA", sha, count.as_bytes()];
        words.extend(command.keys.iter().map(Vec::as_slice));
        words.extend(more.map(str::as_bytes));
        words.extend(command.args.iter().map(Vec::as_slice));
        self.ask(&words)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        std::fs::remove_dir_all(&self.place).unwrap();
    }
}

/// A script whose time is its last key, and whose queues do not expire by the server's own time.
fn at_our_time(script: &str) -> String {
    let ours = "local time = {math.floor(KEYS[#KEYS] / 1000), KEYS[#KEYS] % 1000 * 1000}";
    let replaced = [("local time = redis.call('TIME')", ours), ("  redis.call('PEXPIRE', key, lifetime)\n", "")];
    replaced.iter().fold(script.to_owned(), |script, (from, to)| {
        assert_eq!(script.matches(from).count(), 1, "{from}");
        script.replace(from, to)
    })
}

/// Makes random commands of a few processes, which know what replies said.
struct Callers {
    coins: Coins,
    tables: Tables,
    members: Vec<Member>,
    versions: BTreeMap<u16, Version>,
    positions: BTreeMap<Vec<u8>, Vec<Position>>,
    sequence: u64,
}

impl Callers {
    fn member(&mut self) -> Member {
        let recent = self.members.len().saturating_sub(self.coins.of(&[1, 2, 3, 5, 100]));
        let at = recent as u64 + self.coins.below((self.members.len() - recent) as u64);
        self.members[at as usize]
    }

    fn position(&mut self, queue: &str) -> Position {
        let seen = self.positions.get(format!("dpb:{{ads}}:{queue}").as_bytes()).cloned().unwrap_or_default();
        let recent = seen.len().saturating_sub(4);
        if seen.is_empty() || self.coins.one_in(5) { Position::default() } else { self.coins.of(&seen[recent..]) }
    }

    fn bytes(&mut self) -> Vec<u8> {
        let len = self.coins.of(&[0, 1, 7, 300]);
        (0..len).map(|_| self.coins.of(b"\0\n: 0a\xff")).collect()
    }

    fn command(&mut self) -> Command {
        let (member, lease) = (self.member(), self.coins.of(&[50, 1000, 1000]));
        let portion = Portion { items: self.coins.of(&[1, 3, 1000]), bytes: self.coins.of(&[10, 400, 1 << 20]) };
        let capacity = Capacity { messages: self.coins.of(&[1, 3, 1000]), lifetime: self.coins.of(&[60, 2000]) };
        let (number, generation) = (1 + self.coins.below(4) as u16, 5 + self.coins.below(2));
        let sequence = self.sequence.saturating_sub(self.coins.below(3));
        self.sequence += self.coins.below(2);
        let kind = self.coins.of(&CommandKind::ALL);
        match kind {
            CommandKind::Take => {
                let life = if self.coins.one_in(3) { member.life } else { self.coins.next() | 1 };
                let seen = self.coins.of(&[self.versions.get(&number).copied(), None, Some(Version::default())]);
                self.tables.take(if self.coins.one_in(2) { 0 } else { number }, life, lease, seen)
            }
            CommandKind::Round => {
                let (known, read) = (self.coins.below(5), self.position(&format!("rewards:{}", member.number)));
                let mut beat = Beat { lease, known, read, portion, ..Beat::default() };
                beat.due = self.coins.of(&[0, 0, 1_700_000_001_000, 1_800_000_000_000]);
                beat.held = self.coins.one_in(3);
                let powers = [self.coins.below(9), self.coins.below(9)];
                [beat.last, beat.late] = powers.map(|power| self.coins.below(1 << power));
                beat.gone = self.coins.below(beat.late + 1);
                let rewards: Vec<_> =
                    (0..self.coins.below(4)).map(|_| (1 + self.coins.below(4) as u16, self.bytes())).collect();
                self.tables.round(member, &beat, sequence, &rewards, capacity)
            }
            CommandKind::Put => {
                let version = Version(Version::first(member.incarnation).0 + self.coins.below(5));
                let (news, snapshot) = (self.coins.one_in(2), self.bytes());
                self.tables.put(member, version, news, snapshot)
            }
            CommandKind::News => {
                let known: Vec<_> = self
                    .versions
                    .iter()
                    .map(|(number, version)| (*number, *version))
                    .filter(|_| self.coins.one_in(2))
                    .collect();
                self.tables.news(member, portion, known.into_iter())
            }
            CommandKind::Lead => {
                let (generation, seen) = (self.coins.of(&[0, generation, generation]), self.coins.below(4));
                self.tables.lead(member, 77, generation, seen, self.coins.of(&[0, 50, 1000]))
            }
            CommandKind::Contribute => {
                let sums = self.bytes();
                self.tables.contribute(member, generation, sequence, capacity, sums)
            }
            CommandKind::Collect => {
                let read = self.position(&format!("contributions:{generation}"));
                self.tables.collect(member, generation, &read, portion)
            }
            CommandKind::Keep => {
                let read = self.position(&format!("rewards:{}", member.number));
                self.tables.keep(member, lease, &read, portion)
            }
            CommandKind::Offer => {
                let receivers: Vec<_> = (0..self.coins.below(3)).map(|_| 1 + self.coins.below(6)).collect();
                self.tables.offer(member, sequence, self.coins.one_in(5), &receivers)
            }
            CommandKind::Host => {
                let asked = if self.coins.one_in(2) { 0 } else { number };
                self.tables.host(member, asked, self.coins.next() as u32)
            }
            CommandKind::Entrust => {
                let state = self.bytes();
                self.tables.entrust(member, lease, number, 1 + self.coins.below(6), state)
            }
            CommandKind::Adopt => {
                let read = self.position(&format!("states:{}", member.number));
                self.tables.adopt(member, lease, &read)
            }
            CommandKind::Leave => {
                self.tables.leave(Member { life: if self.coins.one_in(3) { 0 } else { member.life }, ..member })
            }
        }
    }

    fn hear(&mut self, command: &Command, bytes: &[u8]) {
        let mut read = |queue: &Vec<u8>, messages: Vec<Message>| {
            self.positions.entry(queue.clone()).or_default().extend(messages.iter().map(Position::after));
        };
        match command.kind {
            CommandKind::Take => {
                let Ok(taken) = reply::take(bytes) else { return };
                let life = std::str::from_utf8(&command.args[2]).unwrap().parse().unwrap();
                self.versions.insert(taken.number, taken.version);
                if taken.incarnation > 0 {
                    self.members.push(Member { number: taken.number, incarnation: taken.incarnation, life });
                }
            }
            CommandKind::Round => _ = reply::round(bytes).map(|reply| read(&command.keys[4], reply.rewards)),
            CommandKind::Collect | CommandKind::Keep => {
                _ = reply::messages(bytes).map(|messages| read(&command.keys[1], messages));
            }
            CommandKind::Adopt => {
                if let Ok(Some(state)) = reply::adopt(bytes) {
                    self.positions.entry(command.keys[1].clone()).or_default().push(state.position);
                    if state.member.incarnation > 0 {
                        self.members.push(state.member);
                    }
                }
            }
            CommandKind::News => {
                for new in reply::news(bytes).map_or(Vec::new(), |(_, news)| news) {
                    self.versions.insert(new.number, new.version);
                }
            }
            _ => {}
        }
    }
}

/// What a reply says first, and whether it then says more than nothing.
fn outcome(reply: &[u8]) -> (String, bool) {
    let text = String::from_utf8_lossy(reply);
    let first = text.split(|c: char| !c.is_alphanumeric()).nth(1).unwrap();
    (first.trim_end_matches(|c: char| c.is_ascii_digit()).into(), reply.len() > 60)
}

#[test]
fn scripts_and_rows_reply_equally() {
    let Some(mut redis) = Redis::start("equal") else { return };
    let scripts = CommandKind::ALL.map(|kind| redis.load(&at_our_time(kind.script().to_str().unwrap())));
    let mut outcomes = BTreeMap::new();
    for seed in 0..200 {
        redis.ask(&[b"FLUSHALL"]).unwrap();
        let (mut rows, mut now) = (Memory::default(), 1_700_000_000_000);
        let mut callers = Callers {
            coins: Coins(seed),
            tables: Tables::new("ads"),
            members: vec![Member { number: 3, incarnation: 1, life: 9 }],
            versions: BTreeMap::new(),
            positions: BTreeMap::new(),
            sequence: 1,
        };
        let mut last: Option<Command> = None;
        for step in 0..150 {
            now += callers.coins.of(&[0, 1, 1, 20, 70]);
            if callers.coins.one_in(40) {
                now -= 500; // the server's clock goes back
            }
            let repeated = last.filter(|_| callers.coins.one_in(6));
            let command = repeated.unwrap_or_else(|| callers.command());
            let theirs = redis.run(&scripts[command.kind as usize], &command, Some(&now.to_string()));
            let story = || {
                let args: Vec<_> = command.args.iter().map(|arg| String::from_utf8_lossy(arg)).collect();
                format!("seed {seed} step {step}: {:?} {args:?}", command.kind)
            };
            let theirs = theirs.unwrap_or_else(|error| panic!("{}: {error}", story()));
            let ours = store::run(&mut rows, &command, now).unwrap();
            let [theirs_text, ours_text] = [&theirs, &ours].map(|reply| String::from_utf8_lossy(reply));
            assert!(theirs == ours, "{}:\nscript {theirs_text}\nrows   {ours_text}", story());
            *outcomes.entry((command.kind, outcome(&ours))).or_insert(0) += 1;
            callers.hear(&command, &ours);
            last = Some(command);
        }
    }
    // Every command is refused, and does something, often enough.
    for kind in CommandKind::ALL {
        let seen = |text: &str| {
            outcomes.iter().filter(|(key, _)| key.0 == kind && key.1.0 == text).map(|row| row.1).sum::<u32>()
        };
        let refuses =
            !matches!(kind, CommandKind::Take | CommandKind::Host | CommandKind::Entrust | CommandKind::Leave);
        assert!(seen("ok") > 200 && (!refuses || seen("replaced") > 200), "{kind:?}: {outcomes:?}");
    }
    assert!(outcomes[&(CommandKind::Take, ("taken".into(), false))] > 100, "{outcomes:?}");
}

/// A command that Redis repeats, or that meets a key of another kind.
#[test]
fn a_beat_survives_broken_queues() {
    let Some(mut redis) = Redis::start("broken") else { return };
    let tables = Tables::new("ads");
    let run = |redis: &mut Redis, command: &Command| {
        let sha = redis.load(command.kind.script().to_str().unwrap());
        assert_eq!(sha, command.kind.sha1().to_bytes());
        redis.run(&sha, command, None).unwrap()
    };
    let taken = reply::take(&run(&mut redis, &tables.take(0, 5, 60_000, None))).unwrap();
    assert_eq!((taken.number, taken.incarnation), (1, 1));
    let member = Member { number: 1, incarnation: 1, life: 5 };
    for queue in ["rewards:1", "rewards:2"] {
        redis.ask(&[b"SET", format!("dpb:{{ads}}:{queue}").as_bytes(), b"foreign"]).unwrap();
    }
    let beat = Beat { lease: 60_000, portion: Portion { items: 10, bytes: 1000 }, ..Beat::default() };
    let capacity = Capacity { messages: 10, lifetime: 60_000 };
    let rewards = [(2, b"a".to_vec()), (1, b"b".to_vec()), (2, b"c".to_vec())];
    let round = tables.round(member, &beat, 1, &rewards, capacity);
    for beats in [2, 3] {
        let replied = reply::round(&run(&mut redis, &round)).unwrap();
        assert_eq!((replied.beats, replied.sent, &replied.numbers[..]), (beats, 3, &[1][..]));
        assert_eq!(replied.rewards.iter().map(Message::content).collect::<Vec<_>>(), [b"b"]);
    }
    let draining = Member { number: 2, incarnation: 1, life: 6 };
    let kept = run(&mut redis, &tables.keep(draining, 60_000, &Position::default(), beat.portion));
    assert_eq!(reply::messages(&kept).unwrap().iter().map(Message::content).collect::<Vec<_>>(), [b"a", b"c"]);
    let till = redis.ask(&[b"PTTL", b"dpb:{ads}:rewards:2"]).unwrap();
    assert!((1..=60_000).contains(&String::from_utf8(till).unwrap().parse::<i64>().unwrap()));
    // A server without memory: the beat fails whole, and the node sends it again.
    redis.ask(&[b"CONFIG", b"SET", b"maxmemory", b"1"]).unwrap();
    let sha = CommandKind::Round.sha1().to_bytes();
    assert!(redis.run(sha, &round, None).unwrap_err().contains("OOM"));
    redis.ask(&[b"CONFIG", b"SET", b"maxmemory", b"0"]).unwrap();
    assert_eq!(reply::round(&run(&mut redis, &round)).unwrap().beats, 4);
}
