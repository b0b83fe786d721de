//! Runs that several machines play, each some of the episodes.

use super::plan::{RunPlan, Shard};
use super::policies::Property;

impl RunPlan {
    /// Returns how many of the run's first `episodes` belong to its shard.
    pub fn own_episodes(&self, episodes: u64) -> u64 {
        ShardEpisodes::new(self).below(episodes)
    }
}

/// The episodes of a shard in their order: maps places, from 0, to episodes and back.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShardEpisodes {
    shard: Shard,
    benchmarks: u64,
    /// The number of the shard's benchmarks, if it is chosen by benchmark.
    own: Option<u64>,
}

impl ShardEpisodes {
    pub(super) fn new(plan: &RunPlan) -> Self {
        let (shard, benchmarks) = (plan.shard, plan.benchmarks.len() as u64);
        let own = plan.policy.has(Property::LooksBack).then(|| shard.share_of(benchmarks));
        Self { shard, benchmarks, own }
    }

    /// Returns the episode at a place.
    pub(super) fn ordinal(&self, place: u32) -> u32 {
        let (index, count) = (u64::from(self.shard.index), u64::from(self.shard.count));
        let place = u64::from(place);
        let ordinal = match self.own {
            Some(own) => place / own * self.benchmarks + place % own * count + index,
            None => place * count + index,
        };
        u32::try_from(ordinal).unwrap_or(u32::MAX)
    }

    /// Returns the place of an episode of this shard.
    pub(super) fn place(&self, ordinal: u32) -> u32 {
        let (ordinal, count) = (u64::from(ordinal), u64::from(self.shard.count));
        let place = match self.own {
            Some(own) => ordinal / self.benchmarks * own + ordinal % self.benchmarks / count,
            None => ordinal / count,
        };
        u32::try_from(place).expect("an episode of the shard has a place before its number")
    }

    /// Returns how many of the run's first `episodes` belong to the shard.
    pub(super) fn below(&self, episodes: u64) -> u64 {
        match self.own {
            Some(own) => {
                let rounds = episodes / self.benchmarks;
                rounds * own + self.shard.share_of(episodes % self.benchmarks)
            }
            None => self.shard.share_of(episodes),
        }
    }

    /// Returns the number of places after which each of the shard's benchmarks has come; exactly
    /// once each, if the shard is chosen by benchmark.
    pub(super) fn round(&self) -> u32 {
        u32::try_from(self.own.unwrap_or(self.benchmarks)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::generate::{Costed, Stop};

    fn plan(shard: Shard, benchmarks: u32, policy: &str) -> RunPlan {
        let uri = |seed| format!("generator://toy-v0/{seed}").parse().unwrap();
        RunPlan {
            benchmarks: (0..benchmarks).map(uri).collect(),
            action_space: "toy-v0".into(),
            policy: policy.parse().unwrap(),
            objective: String::new(),
            patience: 0,
            coreset: Arc::default(),
            reference: None,
            costed: Costed::EachState,
            stop: Stop::Episodes(1),
            episode_length: 1,
            seed: 0,
            jobs: 1,
            shard,
        }
    }

    proptest! {
        #[test]
        fn shards_share_the_episodes_out(
            count in 1_u32..7,
            benchmarks in 1_u32..12,
            episodes in 0_u32..60,
            explore in any::<bool>(),
        ) {
            let policy = if explore { "explore" } else { "random" };
            let mut all = Vec::new();
            for index in 0..if explore { count.min(benchmarks) } else { count } {
                let shard = Shard::new(index, count).unwrap();
                let places = ShardEpisodes::new(&plan(shard, benchmarks, policy));
                let own = u32::try_from(places.below(episodes.into())).unwrap();
                let ordinals: Vec<_> = (0..own).map(|place| places.ordinal(place)).collect();
                prop_assert!(ordinals.is_sorted() && ordinals.iter().all(|&e| e < episodes));
                prop_assert!(places.ordinal(own) >= episodes);
                for (&ordinal, place) in ordinals.iter().zip(0..) {
                    prop_assert_eq!(places.place(ordinal), place);
                    let number = if explore { ordinal % benchmarks } else { ordinal };
                    prop_assert_eq!(number % count, index);
                }
                all.extend(ordinals);
            }
            all.sort_unstable();
            prop_assert_eq!(all, (0..episodes).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_shard_is_written_as_its_number_and_how_many_there_are() {
        assert_eq!("2/3".parse::<Shard>().map(|shard| shard.to_string()), Ok("2/3".to_owned()));
        assert_eq!("0/1".parse(), Ok(Shard::WHOLE));
        for wrong in ["3/3", "1", "-1/3", "0/0", "a/b", "1/3/3"] {
            assert!(wrong.parse::<Shard>().unwrap_err().contains("0/3, 1/3, 2/3"), "{wrong}");
        }
    }
}
