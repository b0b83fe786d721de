//! A live session as a tree: its nodes are states, its edges the actions that were tried.
//!
//! A node keeps what is known of its state. Few nodes have a compiler that is in their state: that
//! of the start, and those that were used last. From one of these, a fork plays the actions to any
//! other node. The state that it reaches is compared with the one that the node has.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use steplake::env::{Environment, Expected, Route, Session, SessionError, Start, Watch, llvm};
use steplake::model::{
    ActionIndex, ActionSpace, Baselines, Benchmark, EnvironmentSpec, Failure, ObservationIndex,
    Outcome, RewardSpace, StateId, Value,
};

use super::costs::{complete, cost_of, feature_spaces, reward_of, shown_baselines, vector};
use super::node::TreeNode;
use super::shown::{
    NOTE, NodeFailure, ShownCommand, ShownFeatures, ShownNode, ShownTree, command_of,
};
use crate::answers::Problem;
use crate::programs::ProgramSource;

/// The most nodes of a tree.
const NODES_MAX: usize = 20_000;

/// The most actions of one request.
pub(crate) const ACTIONS_MAX: usize = 2000;

/// The most nodes besides the first one whose compilers are kept.
const OPEN_MAX: usize = 6;

/// The number of the node where a tree begins.
pub(crate) const ROOT: usize = 0;

/// A live session of one program.
pub(crate) struct Tree {
    environment: Arc<dyn Environment>,
    benchmark: Benchmark,
    action_space: String,
    baselines: Baselines,
    reward: RewardSpace,
    cost: ObservationIndex,
    /// NaN if the compiler fails on a baseline that it is made of.
    divisor: f64,
    nodes: BTreeMap<usize, TreeNode>,
    next: usize,
    root: Box<dyn Session>,
    /// Compilers in the states of nodes, the one that was used last at the end.
    open: VecDeque<(usize, Box<dyn Session>)>,
    /// Vectors of features, by state and space.
    features: HashMap<(StateId, ObservationIndex), Arc<[f64]>>,
}

/// What a session is to be of.
pub(crate) struct TreeStart {
    pub(crate) benchmark: Benchmark,
    pub(crate) action_space: String,
    pub(crate) reward_space: String,
}

impl Tree {
    /// Starts a session.
    ///
    /// # Errors
    ///
    /// If a space does not exist, or the compiler cannot start the program.
    pub(crate) fn start(
        environment: Arc<dyn Environment>,
        programs: &ProgramSource,
        start: TreeStart,
    ) -> Result<Self, Problem> {
        let TreeStart { benchmark, action_space, reward_space } = start;
        let spec = environment.spec();
        let reward = reward_of(spec, &reward_space)?;
        let cost = spec.observation_index(&reward.cost).ok_or_else(|| {
            Problem::wrong(format!("{} has no observation space {}", spec.name, reward.cost))
        })?;
        let known = programs.baselines(&benchmark);
        let mut root = environment.session()?;
        let started = root.start(&Start {
            benchmark: &benchmark,
            action_space: &action_space,
            baselines: known.as_ref(),
            watch: &Watch::default(),
        })?;
        if known.as_ref() != Some(&started.baselines) {
            programs.keep_baselines(&benchmark, &started.baselines);
        }
        let cost_of_root = cost_of(root.as_mut(), spec, cost)?.map_err(|failure| {
            SessionError::StartFailed { uri: benchmark.uri.to_string(), failure }
        })?;
        let mut baselines = started.baselines;
        complete(&mut baselines, spec, &reward, root.as_mut())?;
        let divisor = reward.divisor(&baselines).unwrap_or(f64::NAN);
        let mut tree = Self {
            environment,
            benchmark,
            action_space,
            baselines,
            reward,
            cost,
            divisor,
            nodes: BTreeMap::new(),
            next: ROOT + 1,
            root,
            open: VecDeque::new(),
            features: HashMap::new(),
        };
        let first = TreeNode { state: Some(started.state), cost: cost_of_root, ..TreeNode::new() };
        tree.nodes.insert(ROOT, first);
        Ok(tree)
    }

    /// Returns a session with the same nodes, which goes on by itself.
    ///
    /// # Errors
    ///
    /// If the compiler of the start cannot be forked.
    pub(crate) fn fork(&mut self) -> Result<Self, Problem> {
        Ok(Self {
            environment: Arc::clone(&self.environment),
            benchmark: self.benchmark.clone(),
            action_space: self.action_space.clone(),
            baselines: self.baselines.clone(),
            reward: self.reward.clone(),
            nodes: self.nodes.clone(),
            root: self.root.fork()?,
            open: VecDeque::new(),
            features: self.features.clone(),
            ..*self
        })
    }

    fn spec(&self) -> &EnvironmentSpec {
        self.environment.spec()
    }

    fn space(&self) -> Result<&ActionSpace, Problem> {
        let space = self.spec().action_space(&self.action_space);
        space.ok_or_else(|| Problem::missing("the action space of the session is gone"))
    }

    fn node(&self, node: usize) -> Result<&TreeNode, Problem> {
        self.nodes.get(&node).ok_or_else(|| {
            Problem::missing(format!("the session has no node {node}: it may have been undone"))
        })
    }

    /// Plays actions from a node on. What was played from there before is not played again. Returns
    /// the nodes on the way; the last one may be a failure, after which nothing is played.
    ///
    /// # Errors
    ///
    /// If an action does not exist, which is found before any is played, or the session fails.
    pub(crate) fn play(&mut self, from: usize, actions: &[u32]) -> Result<Vec<usize>, Problem> {
        self.demand(from, actions)?;
        let mut way = Vec::with_capacity(actions.len());
        let (mut at, mut rest) =
            (from, actions.iter().map(|&action| ActionIndex(action)).peekable());
        while let Some(&action) = rest.peek() {
            let children = self.node(at)?.children.iter();
            let known = children.copied().find(|child| {
                self.nodes.get(child).is_some_and(|node| node.action == Some(action))
            });
            let Some(child) = known else { break };
            rest.next();
            way.push(child);
            at = child;
            if self.node(at)?.state.is_none() {
                return Ok(way);
            }
        }
        if rest.peek().is_none() {
            return Ok(way);
        }
        let mut session = self.fork_at(at)?;
        for action in rest {
            let step = session.apply(action)?;
            let made = match &step.outcome {
                Outcome::State { id, changed, .. } => {
                    match cost_of(session.as_mut(), self.spec(), self.cost)? {
                        Ok(cost) => self.reached(at, action, (*id, *changed), cost)?,
                        Err(failure) => self.failed(at, action, &failure)?,
                    }
                }
                Outcome::Crashed(failure) => self.failed(at, action, failure)?,
            };
            way.push(made);
            at = made;
            if self.node(made)?.state.is_none() {
                return Ok(way);
            }
            if step.outcome.ends_episode() {
                break;
            }
        }
        self.keep_open(at, session);
        Ok(way)
    }

    /// Refuses actions that cannot be played from a node.
    fn demand(&self, from: usize, actions: &[u32]) -> Result<(), Problem> {
        let space = self.space()?;
        if self.node(from)?.state.is_none() && !actions.is_empty() {
            return Err(Problem::conflict(format!(
                "the compiler failed at node {from}: nothing can follow it; go on from another node"
            )));
        }
        if actions.len() > ACTIONS_MAX || self.nodes.len() + actions.len() > NODES_MAX {
            return Err(Problem::wrong(format!(
                "a request may have {ACTIONS_MAX} actions and a session {NODES_MAX} nodes: undo some, or start another \
                 session"
            )));
        }
        match actions.iter().find(|&&action| space.get(ActionIndex(action)).is_none()) {
            None => Ok(()),
            Some(&index) => {
                let (space, len) = (space.name.clone(), space.actions.len());
                Err(SessionError::InvalidAction { index, space, len }.into())
            }
        }
    }

    /// Adds a node for a state that an action led to.
    fn reached(
        &mut self,
        parent: usize,
        action: ActionIndex,
        (state, is_changed): (StateId, bool),
        cost: Option<f64>,
    ) -> Result<usize, Problem> {
        let before = self.node(parent)?;
        let saved = before.cost.zip(cost);
        let reward = saved.map(|(before, after)| RewardSpace::reward(before, after, self.divisor));
        let cumulative = before.cumulative + reward.unwrap_or_default();
        let state = Some(state);
        self.add(
            parent,
            action,
            TreeNode { state, is_changed, reward, cumulative, cost, ..TreeNode::new() },
        )
    }

    /// Adds a node for an action on which the compiler failed.
    fn failed(
        &mut self,
        parent: usize,
        action: ActionIndex,
        failure: &Failure,
    ) -> Result<usize, Problem> {
        let cumulative = self.node(parent)?.cumulative;
        let failure =
            NodeFailure { kind: failure.kind.to_string(), detail: failure.detail.clone() };
        self.add(parent, action, TreeNode { failure: Some(failure), cumulative, ..TreeNode::new() })
    }

    fn add(
        &mut self,
        parent: usize,
        action: ActionIndex,
        node: TreeNode,
    ) -> Result<usize, Problem> {
        let depth = self.node(parent)?.depth + 1;
        let number = self.next;
        self.next += 1;
        let node = TreeNode { parent: Some(parent), action: Some(action), depth, ..node };
        self.nodes.insert(number, node);
        if let Some(parent) = self.nodes.get_mut(&parent) {
            parent.children.push(number);
        }
        Ok(number)
    }

    /// Removes a node and all below it, and returns their numbers.
    ///
    /// # Errors
    ///
    /// If there is no such node, or it is the first one.
    pub(crate) fn remove(&mut self, node: usize) -> Result<Vec<usize>, Problem> {
        let Some(parent) = self.node(node)?.parent else {
            return Err(Problem::wrong("the first node cannot be undone: end the session instead"));
        };
        let mut removed = vec![node];
        let mut seen = 0;
        while let Some(&at) = removed.get(seen) {
            seen += 1;
            removed.extend(self.nodes.remove(&at).map(|node| node.children).unwrap_or_default());
        }
        if let Some(parent) = self.nodes.get_mut(&parent) {
            parent.children.retain(|child| *child != node);
        }
        self.open.retain(|(at, _)| !removed.contains(at));
        removed.sort_unstable();
        Ok(removed)
    }

    /// Returns the nodes from the first one to this one.
    ///
    /// # Errors
    ///
    /// If there is no such node.
    pub(crate) fn path(&self, node: usize) -> Result<Vec<usize>, Problem> {
        let mut path = vec![node];
        let mut at = self.node(node)?;
        while let Some(parent) = at.parent {
            path.push(parent);
            at = self.node(parent)?;
        }
        path.reverse();
        Ok(path)
    }

    /// Returns the state of a node.
    ///
    /// # Errors
    ///
    /// If there is no such node, or the compiler failed there.
    pub(crate) fn state(&self, node: usize) -> Result<StateId, Problem> {
        self.node(node)?.state.ok_or_else(|| {
            Problem::conflict(format!(
                "the compiler failed at node {node}: there is no state to show"
            ))
        })
    }

    /// Returns the reward of the action that led to a node, 0 if there is none.
    pub(crate) fn reward(&self, node: usize) -> f64 {
        self.nodes.get(&node).and_then(|node| node.reward).unwrap_or_default()
    }

    /// Returns how the compiler failed at a node, if it did.
    pub(crate) fn failure(&self, node: usize) -> Option<String> {
        let node = self.nodes.get(&node)?;
        let failure = node.failure.as_ref()?;
        let space = self.spec().action_space(&self.action_space)?;
        let name = node.action.and_then(|action| space.get(action)).map(|action| &action.name)?;
        Some(format!("the compiler failed on {name}: {}: {}", failure.kind, failure.detail))
    }

    /// Returns a compiler in the state of a node, which nobody else uses.
    fn fork_at(&mut self, node: usize) -> Result<Box<dyn Session>, Problem> {
        if node == ROOT {
            return Ok(self.root.fork()?);
        }
        if let Some(place) = self.open.iter().position(|(at, _)| *at == node) {
            return Ok(self.open[place].1.fork()?);
        }
        let wanted = self.state(node)?;
        let path = self.path(node)?;
        let is_open = |at: &usize| *at == ROOT || self.open.iter().any(|(open, _)| open == at);
        let begin = path.iter().rposition(is_open).unwrap_or_default();
        let actions: Vec<ActionIndex> =
            path[begin + 1..].iter().filter_map(|at| self.nodes.get(at)?.action).collect();
        let mut session = self.fork_at(path[begin])?;
        let route = Route { actions: &actions, expected: Expected::Last(wanted) };
        let brought = route.bring(session.as_mut(), |_, _| {})?;
        brought.map_err(|strayed| strayed.diverged(&self.benchmark.uri, wanted))?;
        Ok(session)
    }

    /// Keeps a compiler that is in the state of a node, in the place of the one that was not used
    /// in the longest time.
    fn keep_open(&mut self, node: usize, session: Box<dyn Session>) {
        if node == ROOT {
            return;
        }
        self.open.retain(|(at, _)| *at != node);
        self.open.push_back((node, session));
        if self.open.len() > OPEN_MAX {
            self.open.pop_front();
        }
    }

    /// Looks at the state of a node.
    ///
    /// # Errors
    ///
    /// If there is no such node, the compiler fails, or it does not come back to the state.
    fn look<T>(
        &mut self,
        node: usize,
        look: impl FnOnce(&mut dyn Session, &EnvironmentSpec) -> Result<T, SessionError>,
    ) -> Result<T, Problem> {
        self.state(node)?;
        let environment = Arc::clone(&self.environment);
        if node == ROOT {
            return Ok(look(self.root.as_mut(), environment.spec())?);
        }
        let place = self.open.iter().position(|(at, _)| *at == node);
        let mut session = match place.and_then(|place| self.open.remove(place)) {
            Some((_, session)) => session,
            None => self.fork_at(node)?,
        };
        let seen = look(session.as_mut(), environment.spec());
        self.keep_open(node, session);
        Ok(seen?)
    }

    /// Returns the text of the program at a node.
    ///
    /// # Errors
    ///
    /// Those of [`Tree::look`].
    pub(crate) fn text(&mut self, node: usize) -> Result<String, Problem> {
        self.look(node, |session, spec| match spec.observation_index("Ir") {
            Some(space) => match session.observe(space)? {
                Value::Text(text) => Ok(text),
                other => Err(SessionError::Defect(format!("Ir is {other:?}, which is no text"))),
            },
            None => match session.observe(spec.state_index())? {
                Value::Bytes(state) => session.text(&state),
                other => Err(SessionError::Defect(format!("a state is {other:?}, and no bytes"))),
            },
        })
    }

    /// Returns the features of a node, in each space of features.
    ///
    /// # Errors
    ///
    /// Those of [`Tree::look`].
    pub(crate) fn features(
        &mut self,
        node: usize,
    ) -> Result<BTreeMap<String, ShownFeatures>, Problem> {
        let state = self.state(node)?;
        let spaces = feature_spaces(self.spec());
        let lacks = |(space, _, _): &(ObservationIndex, String, Vec<String>)| {
            !self.features.contains_key(&(state, *space))
        };
        let wanted: Vec<ObservationIndex> =
            spaces.iter().filter(|space| lacks(space)).map(|(space, ..)| *space).collect();
        if !wanted.is_empty() {
            let observed = self.look(node, |session, _| {
                wanted.iter().map(|&space| session.observe(space)).collect::<Result<Vec<_>, _>>()
            })?;
            for (space, value) in wanted.into_iter().zip(observed) {
                self.features.insert((state, space), vector(&value));
            }
        }
        let shown = spaces.into_iter().filter_map(|(space, name, names)| {
            let values = Arc::clone(self.features.get(&(state, space))?);
            Some((name, ShownFeatures { names, values }))
        });
        Ok(shown.collect())
    }

    /// Returns the commands that lead to a node.
    ///
    /// # Errors
    ///
    /// If there is no such node.
    pub(crate) fn command(&self, node: usize) -> Result<ShownCommand, Problem> {
        let (space, path) = (self.space()?, self.path(node)?);
        let taken = path.iter().filter_map(|at| {
            let node = self.nodes.get(at)?;
            Some((space.get(node.action?)?, node.is_changed))
        });
        let environment = self.spec().name.as_ref();
        let command = |all: bool| {
            let wanted = taken.clone().filter(|(_, is_changed)| all || *is_changed);
            command_of(environment, wanted.map(|(action, _)| action))
        };
        Ok(ShownCommand {
            opt: command(false),
            opt_all: command(true),
            note: (environment == llvm::NAME).then_some(NOTE),
        })
    }

    /// Shows the session, which has this id.
    pub(crate) fn show(&self, id: &str) -> ShownTree {
        ShownTree {
            id: id.to_owned(),
            benchmark: self.benchmark.uri.to_string(),
            action_space: self.action_space.clone(),
            reward_space: self.reward.name.to_string(),
            cost_name: self.reward.cost.to_string(),
            baselines: shown_baselines(&self.baselines, self.spec(), &self.reward),
            nodes: self.nodes.keys().filter_map(|&node| self.show_node(node)).collect(),
        }
    }

    /// Shows a node, if there is one.
    pub(crate) fn show_node(&self, number: usize) -> Option<ShownNode> {
        let space = self.spec().action_space(&self.action_space);
        Some(self.nodes.get(&number)?.show(number, space))
    }
}
