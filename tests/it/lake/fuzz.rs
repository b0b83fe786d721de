//! The fuzz targets over their committed seeds and over changes of them: a number of cases, not a
//! time.
//!
//! `STEPLAKE_SEEDS=write` writes the seeds anew; needed once the format of a lake has changed.
//! `STEPLAKE_FUZZ_TIMES=n` tries n times as many cases, other ones for every n.
#![expect(clippy::print_stdout, reason = "how much was tried is for whoever asks")]

#[path = "../../../fuzz/targets.rs"]
mod targets;

use std::path::PathBuf;

/// A generator of changes (splitmix64): the same ones in every run of the tests.
struct Changes(u64);

impl Changes {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % count.max(1) as u64).unwrap()
    }

    /// A seed with a few changes, some of them pieces of another seed.
    fn change(&mut self, seed: &[u8], other: &[u8]) -> Vec<u8> {
        let mut content = seed.to_vec();
        for _ in 0..=self.below(4) {
            let place = self.below(content.len());
            let piece = {
                let start = self.below(other.len());
                other[start..(start + 1 + self.below(24)).min(other.len())].to_vec()
            };
            match self.below(7) {
                _ if content.is_empty() => content = piece,
                0 | 1 => content[place] ^= 1 << self.below(8),
                2 => content[place] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
                3 => content.truncate(place),
                4 => drop(content.drain(place..(place + 1 + self.below(16)).min(content.len()))),
                5 => drop(content.splice(place..place, piece)),
                _ => {
                    let end = (place + piece.len()).min(content.len());
                    content.splice(place..end, piece);
                }
            }
        }
        content
    }
}

fn committed(target: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    if std::env::var("STEPLAKE_SEEDS").is_ok_and(|what| what == "write") {
        std::fs::create_dir_all(&folder).unwrap();
        for (name, content) in targets::seeds(target) {
            std::fs::write(folder.join(name), content).unwrap();
        }
    }
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files = files.collect::<Vec<_>>();
    files.sort();
    files.into_iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// Runs a target over its seeds, as they were committed and as they are made today, and so many
/// changes.
fn fuzz(target: &str, run: fn(&[u8]), changes: usize) {
    let mut seeds = committed(target);
    assert!(seeds.len() > 3, "{target} has too few seeds: {}", seeds.len());
    seeds.extend(targets::seeds(target).into_iter().map(|(_, content)| content));
    for seed in &seeds {
        run(seed);
    }
    let times = std::env::var("STEPLAKE_FUZZ_TIMES").ok().and_then(|text| text.parse().ok());
    let times: usize = times.unwrap_or(1);
    let (mut random, changes) = (Changes(times as u64), changes * times);
    for number in 0..changes {
        let seed = &seeds[number % seeds.len()];
        let other = &seeds[random.below(seeds.len())];
        run(&random.change(seed, other));
    }
    println!("{} cases of {target}", seeds.len() + changes);
}

#[test]
fn any_manifest_is_read_or_refused() {
    fuzz("manifest", targets::manifest, 400);
}

#[test]
fn any_frame_is_read_or_refused() {
    fuzz("frames", targets::frames, 40_000);
}

#[test]
fn any_text_is_answered_or_refused() {
    fuzz("sql", targets::sql, 3000);
}

#[test]
fn any_parquet_file_is_read_or_refused() {
    fuzz("parquet", targets::parquet, 4000);
}
