//! Logs as CompilerGym's logger writes them.

use std::path::{Path, PathBuf};

use miniz_oxide::deflate::compress_to_vec_zlib;
use rusqlite::{Connection, params};
use steplake::model::StateId;

/// The tables of the logger.
pub(super) const TABLES: &str = "
    CREATE TABLE States (
      benchmark_uri TEXT NOT NULL, done INTEGER NOT NULL,
      ir_instruction_count_oz_reward REAL NULLABLE, state_id TEXT NOT NULL, actions TEXT NOT NULL,
      PRIMARY KEY (benchmark_uri, actions),
      FOREIGN KEY (state_id) REFERENCES Observations(state_id) ON UPDATE CASCADE);
    CREATE TABLE Observations (
      state_id TEXT NOT NULL, ir_instruction_count INTEGER NOT NULL,
      compressed_llvm_ir BLOB NOT NULL, pickled_compressed_programl BLOB NOT NULL,
      autophase TEXT NOT NULL, instcount TEXT NOT NULL,
      PRIMARY KEY (state_id));";

/// A log that a test writes.
pub(super) struct WrittenLog {
    pub(super) path: PathBuf,
    pub(super) database: Connection,
}

/// The id of a state of these logs. Half of them begin with a digit from 8 to f.
pub(super) fn state(number: u32) -> StateId {
    let hash = blake3::hash(&number.to_le_bytes());
    StateId(hash.as_bytes()[..20].try_into().unwrap())
}

/// The instruction count of a state of these logs.
pub(super) fn count(number: u32) -> u32 {
    1000 - 10 * number
}

/// The name of a program.
pub(super) fn uri(number: u32) -> String {
    format!("generator://csmith-v0/{number}")
}

/// A text as the logger packs it.
pub(super) fn packed(text: &str) -> Vec<u8> {
    compress_to_vec_zlib(text.as_bytes(), 6)
}

/// A vector as the logger writes it.
pub(super) fn vector(first: u32, len: usize) -> String {
    let numbers = std::iter::once(first).chain(std::iter::repeat_n(0, len - 1));
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
}

impl WrittenLog {
    pub(super) fn new(folder: &Path, name: &str) -> Self {
        let path = folder.join(name);
        let database = Connection::open(&path).unwrap();
        // Python's SQLite does not enforce the reference, and the logger adds steps first.
        database.pragma_update(None, "foreign_keys", false).unwrap();
        database.execute_batch(TABLES).unwrap();
        Self { path, database }
    }

    pub(super) fn name(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// Adds a row of `States` that is of no kind below.
    pub(super) fn row(&self, uri: &str, actions: &str, done: i64, reward: Option<f64>, id: &str) {
        let sql = "INSERT OR IGNORE INTO States VALUES (?, ?, ?, ?, ?)";
        self.database.execute(sql, params![uri, done, reward, id, actions]).unwrap();
    }

    /// Adds a step to a state, with the state's observations. The reward is a tenth of what it
    /// saves in all, in 32 bits as the logger adds it up.
    pub(super) fn step(&self, program: u32, actions: &str, to: u32) {
        self.step_of(&uri(program), actions, 0, to);
    }

    pub(super) fn step_of(&self, uri: &str, actions: &str, done: i64, to: u32) {
        let reward = f64::from(f32::from(u16::try_from(to).unwrap()) * 0.1);
        self.row(uri, actions, done, Some(reward), &state(to).to_string());
        let sql = "INSERT OR IGNORE INTO Observations VALUES (?, ?, ?, ?, ?, ?)";
        let ir = packed(&format!("; state {to}\n"));
        let (id, graph) = (state(to).to_string(), packed("a pickle"));
        let (autophase, counts) = (vector(to, 56), vector(count(to), 70));
        let row = params![id, count(to), ir, graph, autophase, counts];
        self.database.execute(sql, row).unwrap();
    }

    /// Adds a step at which the compiler's service failed: every observation is a default.
    pub(super) fn failure(&self, program: u32, actions: &str) {
        self.row(&uri(program), actions, 1, Some(0.0), "");
        let sql = "INSERT OR IGNORE INTO Observations VALUES ('', 0, ?, ?, ?, ?)";
        let row = params![packed(""), packed("a pickle"), vector(0, 56), vector(0, 70)];
        self.database.execute(sql, row).unwrap();
    }

    /// Two programs, one with three sequences that share beginnings, an end and a failure.
    pub(super) fn two_programs(folder: &Path) -> Self {
        let log = Self::new(folder, "first.db");
        log.step(1, "", 0);
        log.step(1, "31", 1);
        log.step(1, "31 116", 2);
        log.step(1, "31 116 103", 4);
        log.step(1, "31 7", 1);
        log.step(1, "31 7 9", 3);
        log.failure(1, "31 7 9 5");
        log.step_of(&uri(1), "4", 1, 2);
        log.step(2, "", 5);
        log.step(2, "0", 6);
        log
    }
}
