//! Restarts that lose nothing: a server leaves its state to the next one, which opens it once, wherever processes are
//! killed.

use super::*;
use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;
use std::time::SystemTime;

/// The files of a server, in a directory of their own.
struct Home {
    snapshot: PathBuf,
    key: String,
    log: PathBuf,
}

impl Home {
    fn new(name: &str) -> Home {
        let snapshot = place(name);
        let key = snapshot.with_file_name("key");
        fs::write(&key, [7; 32]).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        Home { log: snapshot.with_extension("log"), key: key.to_str().unwrap().to_owned(), snapshot }
    }

    fn beside(&self, more: &str) -> PathBuf {
        let mut name = self.snapshot.clone().into_os_string();
        name.push(more);
        name.into()
    }

    /// A server that has no key.
    fn command(&self, program: &Program, more: &[&str]) -> Command {
        let mut command = program.command();
        command.args(["--port", "0", "--operator-port", "0", "--snapshot"]).arg(&self.snapshot).args(more);
        command.stderr(fs::OpenOptions::new().create(true).append(true).open(&self.log).unwrap());
        command
    }

    fn start_with(&self, program: &Program, more: &[&str]) -> Life {
        let mut server = Server::start(&mut self.command(program, more));
        let operator = server.next_address();
        Life { server, operator }
    }

    /// A server with the key.
    fn start(&self, program: &Program, more: &[&str]) -> Life {
        self.start_with(program, &[&["--fleet-key-file", &self.key], more].concat())
    }

    /// What the names of its states have after that of the snapshot: `.state` only, unless a process was killed.
    fn states(&self) -> Vec<String> {
        let name = self.snapshot.file_name().unwrap().to_str().unwrap();
        let names = fs::read_dir(self.snapshot.parent().unwrap()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter_map(|other| other.strip_prefix(name).map(str::to_owned)).filter(|n| n.contains(".state")).collect()
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
}

/// A running server.
struct Life {
    server: Server,
    operator: String,
}

impl Life {
    /// Clicks that were refused so far: duplicate, late, rejected, unknown.
    fn refused(&self) -> [f64; 4] {
        let counts = send(&self.operator, "GET", "/diagnostics", "").2;
        ["duplicates", "late", "rejected", "unknown"].map(|name| number_field(&counts, name).unwrap())
    }

    /// Clicks. Returns whether the click was accepted.
    fn click(&self, url: &str) -> bool {
        let before = self.refused();
        assert_eq!(self.server.get(url), (204, String::new()));
        let after = self.refused();
        let more: f64 = after.iter().zip(before).map(|(after, before)| after - before).sum();
        assert!(more == 0.0 || more == 1.0, "{before:?} {after:?}");
        more == 0.0
    }

    fn report(&self) -> Value {
        serde_json::from_str(&self.server.get("/report").1).unwrap()
    }

    fn end(self) {
        assert_eq!(self.server.end(libc::SIGTERM).0.code(), Some(0));
    }

    fn kill(self) {
        self.server.signal(libc::SIGKILL);
    }
}

/// Reports and counts are the same after a restart. A click on an ad from before the restart counts, once. After
/// `kill -9` the server continues from its snapshot, and knows no ticket.
pub fn its_restart_loses_nothing(program: &Program) {
    let home = Home::new("restart");
    let life = home.start(program, &["--memory", "0"]);
    let urls: Vec<_> = (0..2500).map(|_| click_url(&life.server)).collect();
    let [late, later, clicked] = [2400, 2499, 2401].map(|number| urls[number].as_str());
    (0..2400).step_by(3).for_each(|number| drop(life.server.get(&urls[number])));
    assert!(life.click(clicked) && !life.click(clicked) && !life.click(&urls[0]));
    let (report, refused) = (life.report(), life.refused());
    assert_eq!([&report["decisions"], &report["pending"]], [2500, WINDOW]);
    life.end();
    assert_eq!(home.states(), [".state"]);

    let life = home.start(program, &["--memory", "0"]);
    assert_eq!(home.states(), [""; 0]);
    assert_eq!((life.report(), life.refused()), (report, refused));
    assert!(life.click(late) && !life.click(late) && !life.click(clicked) && !life.click(&urls[0]));
    let fresh = click_url(&life.server);
    assert!(!urls.contains(&fresh));
    let report = life.report();
    assert_eq!([&report["decisions"], &report["pending"]], [2501, WINDOW]);
    life.server.end(libc::SIGINT); // again
    let life = home.start(program, &["--memory", "0"]);
    assert_eq!(life.report(), report);
    assert!(!life.click(late) && life.click(later) && life.click(&fresh) && !life.click(&fresh));
    life.kill();

    let life = home.start(program, &["--memory", "0"]);
    assert_eq!(life.report()["pending"], 0);
    assert!([late, later, &fresh].iter().all(|url| !life.click(url)));
    assert!(!home.log().contains("what was open is lost"), "{}", home.log());
}

/// The files that a server leaves which is killed at any step of its end or of its start. The next one starts, deletes
/// what it must not open, and no ticket counts twice. A state that is refused is deleted too, and the log says why.
pub fn a_state_is_opened_once_wherever_it_is_killed(program: &Program) {
    let home = Home::new("steps");
    let life = home.start(program, &[]);
    let ticket = click_url(&life.server);
    life.end();
    let (snapshot, state) = (fs::read(&home.snapshot).unwrap(), fs::read(home.beside(".state")).unwrap());
    fs::remove_file(home.beside(".state")).unwrap();
    let (mut altered, half) = (state.clone(), &state[..state.len() / 2]);
    altered[state.len() / 2] ^= 1;
    let other_key = home.snapshot.with_file_name("other").to_str().unwrap().to_owned();
    fs::write(&other_key, "ab".repeat(32) + "\n").unwrap();
    fs::set_permissions(&other_key, fs::Permissions::from_mode(0o600)).unwrap();

    let key = ["--fleet-key-file", home.key.as_str()];
    let (no_key, other_key): ([&str; 0], _) = ([], ["--fleet-key-file", &other_key]);
    let other_window = [key[0], key[1], "--window", "999"];
    type Files<'a> = &'a [(&'a str, &'a [u8])];
    let cases: [(&str, Files, &[&str], bool, bool); 11] = [
        ("before it ends", &[], &key, false, false),
        ("while it writes the state", &[(".state.new", half)], &key, false, false),
        ("before it renames the state", &[(".state.new", &state)], &key, false, false),
        ("after it renamed the state", &[(".state", &state)], &key, true, false),
        ("from taking the state to deleting it", &[(".state.opened", &state)], &key, false, false),
        ("both", &[(".state", &state), (".state.opened", &state), (".state.new", half)], &key, true, false),
        ("altered", &[(".state", &altered)], &key, false, true),
        ("not whole", &[(".state", half)], &key, false, true),
        ("another key", &[(".state", &state)], &other_key, false, true),
        ("no key", &[(".state", &state)], &no_key, false, true),
        ("another window", &[(".state", &state)], &other_window, false, true),
    ];
    for (what, files, options, counts, refused) in cases {
        fs::write(&home.snapshot, &snapshot).unwrap();
        fs::write(&home.log, "").unwrap();
        files.iter().for_each(|(more, bytes)| fs::write(home.beside(more), bytes).unwrap());
        let life = home.start_with(program, options);
        assert_eq!(home.states(), [""; 0], "{what}");
        assert_eq!(life.report()["decisions"], 1, "{what}");
        assert_eq!(life.report()["pending"], u32::from(counts), "{what}");
        assert_eq!([life.click(&ticket), life.click(&ticket)], [counts, false], "{what}");
        life.kill();
        assert_eq!(home.log().contains("what was open is lost"), refused, "{what}: {}", home.log());
        let life = home.start(program, &[]);
        assert!(!life.click(&ticket), "{what}");
        life.kill();
    }

    // A state is not touched if the snapshot is refused, for example after a mistake in an option.
    fs::write(home.beside(".state"), &state).unwrap();
    let mut process = home.command(program, &[key[0], key[1], "--policy", "dp-med"]).spawn().unwrap();
    assert_eq!(wait(&mut process).code(), Some(1));
    let life = home.start(program, &[]);
    assert!(life.click(&ticket) && !life.click(&ticket));
    life.kill();

    // Keys that are none.
    let (code, said) = program.refuses(&key);
    assert!(code == Some(2) && said.contains("-fleet-key-file needs"), "{code:?} {said}");
    let snapshot = ["--port", "0", "--snapshot", home.snapshot.to_str().unwrap()];
    let refuses = |says: &str| {
        let (code, said) = program.refuses(&[&snapshot, &key[..]].concat());
        assert!(code == Some(1) && said.contains(says) && said.contains(&home.key), "{code:?} {said}");
    };
    let digits = "0".repeat(64);
    for text in ["", &digits[..31], &digits[..33], &digits[..63], &format!("{digits}0"), &format!("{}g", &digits[..63])]
    {
        fs::write(&home.key, text).unwrap();
        refuses("fleet key");
    }
    fs::write(&home.key, &digits).unwrap();
    fs::set_permissions(&home.key, fs::Permissions::from_mode(0o640)).unwrap();
    refuses("other users");
    fs::remove_file(&home.key).unwrap();
    refuses("");
}

/// Each release of a deploy has a directory with a link to the same file. They continue in turn, from each state once.
pub fn releases_with_links_continue_in_turn(program: &Program) {
    let home = Home::new("volume");
    home.start(program, &[]).kill();
    let mut ticket = None;
    for number in 0..3 {
        let other = Home::new("release");
        std::os::unix::fs::symlink(&home.snapshot, &other.snapshot).unwrap();
        fs::copy(&home.key, &other.key).unwrap();
        let life = other.start(program, &[]);
        assert!(fs::symlink_metadata(&other.snapshot).unwrap().is_symlink());
        assert_eq!(other.states(), [""; 0]);
        assert!(home.beside(".lock").exists() && !other.beside(".lock").exists());
        match &ticket {
            None => ticket = Some(click_url(&life.server)),
            Some(ticket) => assert_eq!(life.click(ticket), number == 1, "release {number}"),
        }
        life.end();
        assert_eq!((home.states(), other.states()), (vec![".state".to_owned()], vec![]));
        assert!(!other.log().contains("what was open is lost"), "{}", other.log());
        let saved = Bandit::restore(&fs::read(&home.snapshot).unwrap()).unwrap().report().unwrap();
        assert_eq!(saved.counts.decisions, 1, "the snapshot is not in the volume");
    }
}

/// A server's files are regular files with one link each. Otherwise it ends before it changes anything.
pub fn files_with_other_links_are_refused(program: &Program) {
    let home = Home::new("links");
    let life = home.start(program, &[]);
    let ticket = click_url(&life.server);
    life.end();
    let (snapshot, state) = (fs::read(&home.snapshot).unwrap(), fs::read(home.beside(".state")).unwrap());
    let elsewhere = home.snapshot.with_file_name("elsewhere");
    let key = ["--fleet-key-file", home.key.as_str()];
    type Make = fn(&Path, &Path);
    let link: Make = |to, at| std::os::unix::fs::symlink(to, at).unwrap();
    let hard: Make = |to, at| fs::hard_link(to, at).unwrap();
    let directory: Make = |_, at| fs::create_dir(at).unwrap();
    let fifo: Make = |_, at| assert!(Command::new("mkfifo").arg(at).status().unwrap().success());
    let nothing: Make = |to, at| {
        fs::remove_file(to).unwrap();
        std::os::unix::fs::symlink(to, at).unwrap();
    };
    for (more, what, make) in [
        ("", "hard", hard),
        ("", "directory", directory),
        ("", "fifo", fifo),
        ("", "nothing", nothing),
        (".state", "link", link),
        (".state", "hard", hard),
        (".state", "directory", directory),
        (".state", "fifo", fifo),
        (".lock", "link", link),
        (".lock", "hard", hard),
    ] {
        fs::write(&elsewhere, if more == ".state" { &state } else { &snapshot }).unwrap();
        let file = home.beside(more);
        fs::remove_file(&file).unwrap();
        make(&elsewhere, &file);
        fs::write(&home.log, "").unwrap();
        let mut process = home.command(program, &key).stdout(Stdio::null()).spawn().unwrap();
        assert_eq!(wait(&mut process).code(), Some(1), "{more} {what}: {}", home.log());
        let says = if what == "nothing" { "" } else { "must be a regular file with one link" };
        assert!(
            home.log().contains(says) && home.log().contains(file.to_str().unwrap()),
            "{more} {what}: {}",
            home.log()
        );
        match what {
            "directory" => fs::remove_dir(&file).unwrap(),
            _ => fs::remove_file(&file).unwrap(),
        }
        let there = fs::read(&elsewhere).ok();
        assert!(
            what == "nothing" || there.as_ref() == Some(if more == ".state" { &state } else { &snapshot }),
            "{more} {what}"
        );
        for (more, bytes) in [("", &snapshot), (".state", &state), (".lock", &vec![])] {
            assert!(!home.beside(more).exists() || fs::read(home.beside(more)).unwrap() == *bytes, "{more} {what}");
            fs::write(home.beside(more), bytes).unwrap();
        }
        _ = fs::remove_file(&elsewhere);
    }

    // What the server makes anew is a file of its own, whatever had its name. It deletes nothing else.
    fs::write(&elsewhere, "mine").unwrap();
    link(&elsewhere, &home.beside(".new"));
    let others = [".state.backup", ".statement-2026.pdf", ".state.Ab12cD", ".state-of-things", ".stat", ".news"];
    others.iter().for_each(|more| fs::write(home.beside(more), "mine").unwrap());
    let life = home.start(program, &[]);
    assert!(life.click(&ticket) && !life.click(&ticket));
    life.end();
    assert!(fs::symlink_metadata(&home.snapshot).unwrap().is_file());
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "mine");
    others.iter().for_each(|more| assert_eq!(fs::read_to_string(home.beside(more)).unwrap(), "mine", "{more}"));
}

/// Clicks that come while no server runs are lost. After more than an eighth of a window, they must not count as none:
/// the server cancels what was open.
pub fn a_long_pause_cancels_what_was_open(program: &Program) {
    let home = Home::new("pause");
    let options = ["--window", "2h"];
    for (minutes, counts) in [(14, true), (16, false)] {
        let life = home.start(program, &options);
        let url = click_url(&life.server);
        life.end();
        let state = fs::File::options().write(true).open(home.beside(".state")).unwrap();
        state.set_modified(SystemTime::now() - Duration::from_secs(60 * minutes)).unwrap();
        let life = home.start(program, &options);
        assert_eq!(life.report()["pending"], u32::from(counts), "{minutes}");
        assert_eq!([life.click(&url), life.click(&url)], [counts, false], "{minutes}");
        assert_eq!(home.log().contains("away for too long"), !counts, "{minutes}: {}", home.log());
        life.kill();
    }
}

/// The bandit of the placements goes on in its period, with all its counts.
pub fn a_restart_begins_no_period_of_placements(program: &Program) {
    const PERSON: u64 = 0x9f3c_51a2_77d0_e846;
    let home = Home::new("periods");
    let options = ["--placements", "2", "--memory", "0"];
    let start = || home.start(program, &options);
    let life = start();
    let ask = |life: &Life, query: &str| {
        let ads = slots(&mut BufReader::new(life.server.connect()), query).into_iter();
        ads.map(|(_, url)| url).collect::<Vec<_>>()
    };
    for user in 0..250 {
        ask(&life, &format!("placement={}&slots=10&user={user:016x}", user % 2));
    }
    let mine = ask(&life, &format!("placement=1&slots=10&user={PERSON:016x}"));
    let bandits = click_url(&life.server);
    assert!(life.click(&mine[0]));
    // Without means, because the segments' model is fitted anew.
    let counts = |life: &Life| -> Value {
        let of = |query: &str| -> Value { serde_json::from_str(&life.server.get(query).1).unwrap() };
        let [all, here, there] = ["/report", "/report?placement=0", "/report?placement=1"].map(of);
        let pulls = |report: &Value| -> Vec<Value> {
            report["arms"].as_array().unwrap().iter().map(|arm| json!([arm["pulls"], arm["effective_pulls"]])).collect()
        };
        let counts = ["decisions", "pending", "releases", "epsilon_spent"].map(|name| here[name].clone());
        json!([[all["decisions"], all["pending"]], counts, pulls(&here), pulls(&there)])
    };
    let before = counts(&life);
    assert!(before[1][2].as_u64() > Some(0) && before[1][3].as_f64() > Some(0.99), "{before:?}");
    life.end();
    let mut states = home.states();
    states.sort();
    assert_eq!(states, [".placements.state", ".state"]);

    let life = start();
    assert_eq!((home.states(), counts(&life)), (vec![], before));
    assert!(!life.click(&mine[0]) && life.click(&mine[1]) && !life.click(&mine[1]));
    assert!(life.click(&bandits) && !life.click(&bandits));
    life.kill();
    let life = start();
    assert!(counts(&life)[1][3].as_f64() > Some(1.99), "a snapshot begins a period");
    assert!(!life.click(&mine[2]) && !life.click(&bandits));
    life.kill();
}

/// A server that is killed at a random moment of its end, and one that is killed at a random moment of its start, and so
/// on. Each server starts, and no ticket counts twice.
pub fn killed_as_it_ends_or_starts_it_counts_no_click_twice(program: &Program) {
    let home = Home::new("ends");
    let mut random = Seed::new(Some([9; 32])).unwrap().stream();
    let (mut tickets, mut counted, mut resumed) = (Vec::<String>::new(), HashSet::new(), 0);
    for _ in 0..60 {
        if random.below(3) == 0 {
            let mut command = home.command(program, &["--fleet-key-file", &home.key]);
            let mut process = command.stdout(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_micros(random.below(30_000)));
            process.kill().unwrap();
            process.wait().unwrap();
        }
        let life = home.start(program, &[]);
        assert_eq!(home.states(), [""; 0]);
        resumed += u32::from(life.report()["pending"] != 0);
        for url in &tickets {
            if random.below(2) == 0 && life.click(url) {
                assert!(counted.insert(url.clone()), "{url} counts twice");
            }
        }
        tickets.extend((0..4).map(|_| click_url(&life.server)));
        tickets.drain(..tickets.len().saturating_sub(12));
        life.server.signal(if random.below(4) == 0 { libc::SIGKILL } else { libc::SIGTERM });
        std::thread::sleep(Duration::from_micros(random.below(30_000)));
        life.kill();
    }
    println!("{resumed} of 60 servers continued from a state, and {} late clicks counted", counted.len());
}
