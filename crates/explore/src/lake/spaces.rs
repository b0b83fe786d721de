//! What the spaces of a lake are called, and what they say of each other.

use serde::Serialize;
use serde_json::{Map, Value};
use steplake::lake::Identity;
use steplake::model::ActionIndex;

use super::reader::{LakeReader, columns, text};
use crate::answers::Problem;
use crate::tree::shown::NamedAction;

/// The ends of the names of baselines: of a program untouched, and after the compiler's pipelines.
const BASELINES: [&str; 3] = ["O0", "O3", "Oz"];

/// The baselines of a cost by name, as a lake has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BaselineColumns([Option<String>; 3]);

/// The values of the baselines of a program.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct BaselineValues {
    pub(super) o0: Option<f64>,
    o3: Option<f64>,
    pub(super) oz: Option<f64>,
}

impl BaselineColumns {
    /// Returns the columns of `benchmarks` that are the baselines of a cost.
    pub(super) fn of(identity: &Identity, cost: &str) -> Self {
        Self(
            BASELINES
                .map(|end| identity.baselines.iter().find(|name| is_of(name, cost, end)).cloned()),
        )
    }

    pub(super) fn oz(&self) -> Option<&str> {
        self.0[2].as_deref()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flatten().map(String::as_str)
    }

    /// Returns the values in a row of `benchmarks`.
    pub(super) fn values(&self, row: &Map<String, Value>) -> BaselineValues {
        let value = |name: &Option<String>| row.get(name.as_ref()?)?.as_f64();
        let [o0, o3, oz] = &self.0;
        BaselineValues { o0: value(o0), o3: value(o3), oz: value(oz) }
    }
}

/// Returns the baselines of a program for a cost.
pub(super) async fn baselines(
    lake: &LakeReader,
    identity: &Identity,
    benchmark: &str,
    cost: &str,
) -> Result<BaselineValues, Problem> {
    let own = BaselineColumns::of(identity, cost);
    let names = columns("benchmarks", own.names());
    let sql = format!(
        "SELECT benchmark_uri{names} FROM benchmarks WHERE benchmark_uri = {}",
        text(benchmark)
    );
    let row = lake.ask_one::<Map<String, Value>>(sql).await?;
    Ok(row.map(|row| own.values(&row)).unwrap_or_default())
}

/// Whether a baseline is that of a cost: `ObjectTextSizeOz` is that of `ObjectTextSizeBytes`, and
/// `obj_size_Oz` that of `obj_size`.
fn is_of(baseline: &str, cost: &str, end: &str) -> bool {
    let stem = baseline.strip_suffix(end);
    stem.is_some_and(|stem| {
        let stem = stem.strip_suffix('_').unwrap_or(stem);
        cost.strip_prefix(stem).is_some_and(|rest| matches!(rest, "" | "Bytes"))
    })
}

/// Returns the spaces of single numbers that rewards of the lake are about, the usual one first.
pub(super) fn costs(identity: &Identity) -> Vec<&str> {
    let usual = identity.usual_cost();
    let rewarded = identity.rewards.iter().map(|reward| reward.cost.as_str());
    let recorded = |cost: &&str| identity.number_spaces().any(|space| space == *cost);
    let mut costs: Vec<&str> = usual.into_iter().collect();
    for cost in rewarded.filter(recorded) {
        if !costs.contains(&cost) {
            costs.push(cost);
        }
    }
    costs
}

/// Returns the reward by which actions are compared: the first that is scaled, program by program.
pub(super) fn reward(identity: &Identity) -> Option<&str> {
    let rewards = &identity.rewards;
    let scaled = rewards.iter().find(|reward| reward.name != reward.cost);
    scaled.or(rewards.first()).map(|reward| reward.name.as_str())
}

/// Returns an action of the lake with its name.
pub(super) fn action(identity: &Identity, index: u32) -> NamedAction {
    let action = identity.action_space.get(ActionIndex(index));
    NamedAction { index, name: action.map(|action| action.name.clone()).unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_baseline_is_that_of_its_cost() {
        assert!(is_of("IrInstructionCountOz", "IrInstructionCount", "Oz"));
        assert!(is_of("ObjectTextSizeO0", "ObjectTextSizeBytes", "O0"));
        assert!(is_of("obj_size_Oz", "obj_size", "Oz"));
        assert!(!is_of("obj_size_Oz", "obj_size_raw", "Oz"));
        assert!(!is_of("ObjectTextSizeOz", "ObjectTextSizeBytesCodegenOz", "Oz"));
        assert!(!is_of("IrInstructionCountOz", "IrInstructionCount", "O3"));
    }
}
