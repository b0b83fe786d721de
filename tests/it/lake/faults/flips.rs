//! Flipped bits, cuts and missing files, in every kind of file of a lake.

use std::fs;
use std::path::{Path, PathBuf};

use steplake::lake::{Disk, Lake, Table};
use steplake::model::{EpisodeId, RunId};

use super::{Image, Places, Stages, Tally, answers, is_segment};
use crate::fixtures::support::scratch;
use crate::fixtures::toy_lake::{Author, read};
use crate::lake::failing_disk::{Act, Machine, Model, script};

/// A lake on disk whose files are damaged one at a time.
pub(super) struct Bench {
    _folder: tempfile::TempDir,
    pub(super) lake: PathBuf,
    pub(super) image: Image,
    truth: Vec<String>,
}

impl Bench {
    pub(super) fn new(image: Image, truth: Vec<String>) -> Self {
        let folder = scratch();
        let lake = folder.path().join("lake");
        image.lay(&lake);
        Self { _folder: folder, lake, image, truth }
    }

    fn answer(&self) -> Result<Vec<String>, steplake::lake::LakeError> {
        answers(&Lake::open(&self.lake)?)
    }

    /// Puts other content into a file, asks, and puts the old one back.
    pub(super) fn with(&self, file: &Path, content: &[u8], ask: impl FnOnce(&Self)) {
        fs::write(self.lake.join(file), content).unwrap();
        ask(self);
        // SQLite may have left a log beside a database that is then another one's.
        if file.to_string_lossy().starts_with("hot.sqlite") {
            for suffix in ["-wal", "-shm"] {
                let _ = fs::remove_file(self.lake.join(format!("hot.sqlite{suffix}")));
            }
            self.image.lay(&self.lake);
        } else {
            fs::write(self.lake.join(file), &self.image.0[file]).unwrap();
        }
    }
}

pub(super) fn flipped(content: &[u8], places: &mut Places) -> (usize, Vec<u8>) {
    let (place, bit) = (places.below(content.len()), places.below(8));
    let mut content = content.to_vec();
    content[place] ^= 1 << bit;
    (place, content)
}

/// Lengths to cut a file to: none, at seeded places, and all but a byte.
pub(super) fn cuts(bytes: usize, places: &mut Places) -> Vec<usize> {
    let mut cuts = vec![0, bytes - 1];
    cuts.extend((0..6).map(|_| places.below(bytes)));
    cuts
}

#[test]
fn a_flipped_bit_in_a_segment_never_gives_a_wrong_row() {
    let (image, truth) = Stages::last();
    let bench = Bench::new(image.clone(), truth);
    let mut places = Places(1);
    for table in Table::ALL {
        let mut tally = Tally::default();
        for (file, content) in image.segments_of(table) {
            let mut damaged = (0..24)
                .map(|_| flipped(content, &mut places))
                .map(|(place, content)| (format!("bit at {place}"), content))
                .collect::<Vec<_>>();
            let cut = |&at: &usize| (format!("cut at {at}"), content[..at].to_vec());
            damaged.extend(cuts(content.len(), &mut places).iter().map(cut));
            for (what, content) in damaged {
                let case = format!("{}, {what}", file.display());
                bench.with(file, &content, |bench| {
                    let answer = bench.answer();
                    assert!(answer.is_err(), "{case}: nobody noticed");
                    tally.judge(&case, &bench.lake, answer, &bench.truth);
                });
            }
        }
        tally.report(&format!("damage to segments of {table}"), 32);
    }
}

#[test]
fn a_flipped_bit_in_lake_json_is_noticed() {
    let (image, truth) = Stages::last();
    let bench = Bench::new(image.clone(), truth);
    let (mut places, mut tally) = (Places(2), Tally::default());
    let file = Path::new("lake.json");
    let content = &image.0[file];
    for place in 0..content.len() {
        let mut changed = content.clone();
        changed[place] ^= 1 << places.below(8);
        let case = format!("lake.json, bit at {place}");
        bench.with(file, &changed, |bench| {
            tally.judge(&case, &bench.lake, bench.answer(), &bench.truth);
        });
    }
    for at in cuts(content.len(), &mut places) {
        let case = format!("lake.json, cut at {at}");
        bench.with(file, &content[..at], |bench| {
            tally.judge(&case, &bench.lake, bench.answer(), &bench.truth);
        });
    }
    tally.report("damage to lake.json", 1000);
    tally.demand_refused(90);
}

#[test]
fn a_flipped_bit_in_the_database_is_noticed_and_no_writer_builds_on_it() {
    let (image, truth) = Stages::last();
    let bench = Bench::new(image.clone(), truth.clone());
    let (mut places, mut readers, mut writers) = (Places(3), Tally::default(), Tally::default());
    let file = Path::new("hot.sqlite");
    let content = &image.0[file];
    let mut author = Author::default();
    author.episode(EpisodeId::new(RunId(2), 0), 7, &[(1, Some(9))]);
    let more = author.take();
    // The heads of pages hold what the others hang on, and most of the rest is empty.
    let place = |places: &mut Places, case: usize| match case % 3 {
        0 => places.below(content.len()),
        1 => places.below(content.len() / 4096) * 4096 + places.below(64),
        _ => loop {
            let place = places.below(content.len());
            if content[place] != 0 {
                break place;
            }
        },
    };
    for number in 0..360 {
        let (place, bit) = (place(&mut places, number), places.below(8));
        let mut changed = content.clone();
        changed[place] ^= 1 << bit;
        let case = format!("hot.sqlite, bit {bit} at {place}");
        bench.with(file, &changed, |bench| {
            readers.judge(&case, &bench.lake, bench.answer(), &bench.truth);
            if number % 3 > 0 {
                return;
            }
            let written = Machine::start(Disk::default(), &bench.lake).and_then(|mut machine| {
                machine.act(&Act::Append(more.clone()))?;
                machine.act(&Act::Seal)?;
                machine.act(&Act::Dedup)?;
                answers(&machine.lake)
            });
            match written {
                Ok(lines) => {
                    let kept = truth.iter().filter(|line| line.starts_with("steps "));
                    assert!(kept.clone().all(|line| lines.contains(line)), "{case}: rows are gone");
                    writers.right += 1;
                }
                Err(error) => writers.refuse(&case, &bench.lake, &error),
            }
            for (file, content) in image.segments() {
                let recorded = !["state_transitions", "conflicts", "failures"]
                    .iter()
                    .any(|table| file.starts_with(Path::new("data").join(table)));
                let there = fs::read(bench.lake.join(file)).ok();
                assert!(
                    !recorded || there.as_deref() == Some(content),
                    "{case}: {} is gone",
                    file.display()
                );
            }
            // What the writer added goes with the next laying of the files.
            fs::remove_dir_all(&bench.lake).unwrap();
            fs::create_dir(&bench.lake).unwrap();
        });
    }
    for at in cuts(content.len(), &mut places) {
        let case = format!("hot.sqlite, cut at {at}");
        bench.with(file, &content[..at], |bench| {
            readers.judge(&case, &bench.lake, bench.answer(), &bench.truth);
        });
    }
    readers.report("damage to the database under readers", 360);
    writers.report("damage to the database under writers", 120);
}

/// A lake as a power cut leaves it: what was appended since the last seal is in SQLite's log.
/// Beside it what the lake held after each act that was acknowledged.
fn interrupted() -> (Image, Vec<Model>) {
    let folder = scratch();
    let path = folder.path().join("lake");
    let mut machine = Machine::start(Disk::default(), &path).unwrap();
    let mut models = vec![Model::default()];
    let mut author = Author::default();
    let appends = (0_u32..4).map(|number| {
        let episode = EpisodeId::new(RunId(2), number);
        author.episode(episode, 20, &[(number, Some(21 + number)), (1, Some(30))]);
        Act::Append(author.take())
    });
    let acts = script().into_iter().filter(|act| !matches!(act, Act::Reopen)).chain(appends);
    for act in acts {
        machine.act(&act).unwrap();
        models.push(models.last().unwrap().after(&act));
    }
    (Image::of(&path), models)
}

#[test]
fn damage_to_the_log_of_the_database_takes_no_more_than_a_power_cut() {
    let (image, models) = interrupted();
    let file = Path::new("hot.sqlite-wal");
    let bench = Bench::new(image.clone(), Vec::new());
    let (mut places, mut tally, mut cut_short) = (Places(4), Tally::default(), 0);
    let content = &image.0[file];
    let last = models.last().unwrap();
    // The end of the file is of what was brought home before.
    let flips = (0..160).map(|number| {
        let bytes = if number % 4 == 0 { content.len() } else { content.len() / 4 };
        let (place, mut changed) = flipped(&content[..bytes], &mut places);
        changed.extend_from_slice(&content[bytes..]);
        (place, changed)
    });
    let flips = flips.collect::<Vec<_>>();
    let cuts = (0..64).map(|_| places.below(content.len()));
    let cuts = cuts.map(|at| (at, content[..at].to_vec())).collect::<Vec<_>>();
    for (is_cut, (place, changed)) in
        flips.into_iter().map(|flip| (false, flip)).chain(cuts.into_iter().map(|cut| (true, cut)))
    {
        let case = format!("hot.sqlite-wal, changed at {place}");
        bench.with(file, &changed, |bench| {
            let answer = Lake::open(&bench.lake).and_then(|lake| answers(&lake).map(|_| lake));
            match answer {
                Err(error) => tally.refuse(&case, &bench.lake, &error),
                Ok(lake) => {
                    let found = read(&lake);
                    // Where the end is gone, nothing says that it was there.
                    let known = models.iter().rposition(|model| model.0 == found);
                    assert!(known.is_some(), "{case}: rows that never stood together: {found:#?}");
                    let before_last = &models[models.len() - 2];
                    assert!(
                        is_cut || found == last.0 || found == before_last.0,
                        "{case}: {found:#?}"
                    );
                    cut_short += u32::from(known != Some(models.len() - 1));
                    tally.right += 1;
                }
            }
            let written = Machine::start(Disk::default(), &bench.lake);
            match &written {
                Ok(_) => tally.right += 1,
                Err(error) => tally.refuse(&case, &bench.lake, error),
            }
            for (file, content) in image.segments() {
                let there = fs::read(bench.lake.join(file)).ok();
                let is_gone = there.as_deref() != Some(content);
                assert!(!is_gone, "{case}: {} is gone", file.display());
            }
        });
    }
    assert_eq!(read(&Lake::open(&bench.lake).unwrap()), last.0);
    tally.report(&format!("damage to SQLite's log, {cut_short} of them as a power cut"), 200);
}

#[test]
fn what_only_helps_may_be_damaged() {
    let (image, models) = interrupted();
    let bench = Bench::new(image.clone(), Vec::new());
    let (mut places, mut tally) = (Places(5), Tally::default());
    for file in ["hot.sqlite-shm", "writer.lock", "maintenance.lock", "readers.lock"] {
        let content = &image.0[Path::new(file)];
        for _ in 0..20 {
            let some = if content.is_empty() { &[0; 8][..] } else { content };
            let (place, changed) = flipped(some, &mut places);
            let case = format!("{file}, bit at {place}");
            bench.with(Path::new(file), &changed, |bench| {
                let machine = Machine::start(Disk::default(), &bench.lake).unwrap();
                assert_eq!(read(&machine.lake), models.last().unwrap().0, "{case}");
                tally.right += 1;
                drop(machine);
                bench.image.lay(&bench.lake);
            });
        }
    }
    tally.report("damage to what only helps", 80);
}

#[test]
fn a_file_that_is_gone_is_named() {
    let (image, truth) = Stages::last();
    let bench = Bench::new(image.clone(), truth);
    let mut tally = Tally::default();
    let live = live_files(&bench.lake);
    for file in image.0.keys() {
        fs::remove_file(bench.lake.join(file)).unwrap();
        let answer = bench.answer();
        let is_lock = file.extension().is_some_and(|end| end == "lock");
        let is_outside = ["views", "log"].iter().any(|folder| file.starts_with(folder))
            || file.components().any(|part| part.as_os_str() == "_delta_log");
        let is_retired = is_segment(file) && !live.contains(file);
        let is_reserve = file == Path::new("reserve");
        let only_helps = is_lock || is_outside || is_retired || is_reserve;
        assert_eq!(answer.is_ok(), only_helps, "{}", file.display());
        tally.judge(&file.display(), &bench.lake, answer, &bench.truth);
        bench.image.lay(&bench.lake);
    }
    tally.report("missing files", 10);
}

/// The files of the newest snapshot.
fn live_files(lake: &Path) -> Vec<PathBuf> {
    let sealed = Lake::open(lake).unwrap().sealed().unwrap();
    let segments = Table::ALL.into_iter().flat_map(|table| sealed.segments(table));
    segments.map(|segment| segment.path.strip_prefix(lake).unwrap().to_owned()).collect()
}
