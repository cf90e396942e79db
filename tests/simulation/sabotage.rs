//! What a test breaks on purpose, and the store that is broken so.

use super::rows::Memory;
use dpb::node::command::{Command, CommandKind};
use dpb::node::store;

/// Each must be found by its invariant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sabotage {
    #[default]
    None,
    /// A leader adds a repeated contribution again.
    Repeats,
    /// The store says that it has a contribution, and has none.
    LosesSums,
    /// The store says that it has a state, and has none.
    LosesStates,
    /// A bandit forgets the rewards that come in the last four delays of a window.
    DropsLateRewards,
    /// A bandit cancels everything when a period begins.
    CancelsForNothing,
    /// A bandit cancels all that is open when it is to cancel some.
    CancelsAll,
    /// A bandit does not cancel.
    CancelsNothing,
    /// A bandit cancels only what was made two delays later than it should.
    CancelsLate,
    /// The store gives states again, and a process accepts one for a receiver that had one.
    AcceptsStatesTwice,
    /// The store forgets who leads.
    ForgetsLeaders,
    /// TAKE of a number that is alive is no break.
    TakesInSilence,
    /// ROUND does not see that the store has an older beat of the node than its last.
    IgnoresBeats,
    /// ROUND does not see that it has had a reward.
    IgnoresSequences,
    /// ROUND beats, however late it comes.
    IgnoresDue,
    /// A bandit learns from people before a snapshot is stored.
    LearnsUnstored,
    /// A node does not wait until a failover no longer goes back behind its snapshot.
    SettlesAtOnce,
    /// A message is longer if its reward is not 0.
    TellsRewards,
    /// With a send rate, the host drops the messages without a reward.
    SendsNoZeros,
    /// The host puts a snapshot at each reward.
    PutsRewards,
}

fn row(table: &str, field: &[u8]) -> Vec<u8> {
    [b"dpb:{ads}:", table.as_bytes(), b"\0", field].concat()
}

fn number(text: &[u8]) -> u64 {
    std::str::from_utf8(text).expect("a number").parse().expect("a number")
}

/// Drops the messages of a ROUND in which there is no reward.
pub fn send_no_zeros(command: &mut Command) {
    if command.kind == CommandKind::Round {
        let messages = command.args.split_off(17);
        let has_some = |pair: &&[Vec<u8>]| pair[1]["sealed ".len()..].iter().any(|byte| *byte != 0);
        command.args.extend(messages.chunks(2).filter(has_some).flatten().cloned());
    }
}

/// Runs a command on rows that a sabotage may change.
pub fn run(rows: &mut Memory, command: &Command, now: u64, sabotage: Sabotage) -> Result<Vec<u8>, String> {
    if sabotage == Sabotage::None {
        return store::run(rows, command, now).map_err(|failed| format!("{failed:?}"));
    }
    let mut command = command.clone();
    let mut counts = Vec::new();
    match (sabotage, command.kind) {
        (Sabotage::LosesSums, CommandKind::Contribute) | (Sabotage::LosesStates, CommandKind::Entrust) => {
            return Ok(b"2:ok".to_vec());
        }
        (Sabotage::ForgetsLeaders, CommandKind::Lead) => rows.0.retain(|key, _| !key.starts_with(&row("leaders", b""))),
        (Sabotage::AcceptsStatesTwice, CommandKind::Adopt) => command.args[4] = b"0".to_vec(), // acknowledges nothing
        (Sabotage::TakesInSilence, CommandKind::Take) => {
            counts = [b"breaks", b"broken"]
                .map(|name| row("counts", name))
                .map(|key| (rows.0.get(&key).cloned(), key))
                .into();
        }
        (Sabotage::IgnoresBeats, CommandKind::Round) => {
            let beat = rows.0.entry(row("alive", &command.args[0])).or_insert(b"0".to_vec());
            *beat = number(beat).max(number(&command.args[4])).to_string().into_bytes();
        }
        (Sabotage::IgnoresSequences, CommandKind::Round) => {
            if let Some(record) = rows.0.get_mut(&row("records", &command.args[0])) {
                let text = String::from_utf8(record.clone()).expect("words");
                let words: Vec<_> = text.split(' ').collect();
                *record = format!("{} {} {} 0 {}", words[0], words[1], words[2], words[4]).into_bytes();
            }
        }
        (Sabotage::IgnoresDue, CommandKind::Round) => command.args[15] = b"0".to_vec(),
        _ => {}
    }
    let bytes = store::run(rows, &command, now).map_err(|failed| format!("{failed:?}"));
    for (before, key) in counts {
        match before {
            Some(before) => rows.0.insert(key, before),
            None => rows.0.remove(&key),
        };
    }
    bytes
}
