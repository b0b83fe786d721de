//! The environment's spec: its compiler and spaces.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use super::actions::{actions, described};
use super::compiler::{Compiler, image_of};
use super::context::GccContext;
use super::session::{GccSession, answer};
use super::spaces;
use super::state::{GccState, OptionChoices};
use super::workplace::Workplace;
use super::{GccOption, GccOptions, NAME, OptionFamily, OptionValues};
use steplake_env::worker::WorkerConfig;
use steplake_env::{
    Choices as MadeOfChoices, Choosable, Environment, EnvironmentOpening, ListedEnvironment,
    Session, SessionError,
};
use steplake_model::{ActionSpace, EnvironmentSpec, Failure};
use steplake_programs::datasets::{FrontEnd, Preprocessor};

/// The environment by its name.
pub const ENTRIES: &[ListedEnvironment] = &[ListedEnvironment {
    name: NAME,
    opening: EnvironmentOpening::OfMany {
        named: |compiler| Ok(Box::new(GccEnvironment::open(compiler)?)),
        built: |build| Ok(Box::new(GccEnvironment::open_build(build)?)),
    },
    is_listed: true,
}];

/// How baselines are made. The number changes when programs are compiled in another way.
const BASELINES: &str = "1: one level of optimisation";

/// The usual distance of keyframes.
const KEYFRAMES: NonZeroU32 = NonZeroU32::new(64).expect("it is not 0");

/// GCC's flags and parameters: a state is a choice of options, and an action changes one of them.
///
/// The compiler runs in processes of its own, behind walls and within limits, so its sessions need
/// no workers.
#[derive(Debug)]
pub struct GccEnvironment(Arc<GccContext>);

impl GccEnvironment {
    /// Opens the environment of the GCC of this name or path, or in the container image named after
    /// `docker:`; that of `gcc` if it is empty.
    ///
    /// # Errors
    ///
    /// [`SessionError::Unavailable`] if it is not here, or is no GCC.
    pub fn open(name: &str) -> Result<Self, SessionError> {
        Ok(Self::of(Compiler::open(name)?))
    }

    /// Describes the environment of a compiler.
    pub(super) fn of(compiler: Arc<Compiler>) -> Self {
        let options = &compiler.options;
        let actions = actions(options);
        let described = actions.iter().map(|&action| described(options, action)).collect();
        let (observations, observation_spaces) = spaces::observations(options).into_iter().unzip();
        let spec = EnvironmentSpec {
            name: NAME.into(),
            compiler: compiler.build.clone(),
            target: compiler.target.clone(),
            action_spaces: vec![ActionSpace {
                name: format!("gcc{}-v0", compiler.major),
                actions: described,
            }],
            observation_spaces,
            reward_spaces: spaces::rewards(options),
            baselines: BASELINES.into(),
            state_space: spaces::STATE_SPACE.into(),
            action_costs: BTreeMap::new(),
            state_scheme: 1,
        };
        // No worker is started with it: it is the usual limits.
        let config = WorkerConfig::new(PathBuf::new());
        let outputs = Arc::default();
        Self(Arc::new(GccContext { spec, compiler, actions, observations, config, outputs }))
    }

    /// Opens the environment of the GCC of this exact build, if it is found in its container image,
    /// by its major version or as `gcc`; else that of `gcc`.
    ///
    /// # Errors
    ///
    /// Those of [`GccEnvironment::open`].
    pub fn open_build(build: &str) -> Result<Self, SessionError> {
        let version = build.strip_prefix("GCC ").unwrap_or_default();
        let major = version.split('.').next().unwrap_or_default();
        let name = image_of(build).unwrap_or_else(|| format!("gcc-{major}"));
        match Self::open(&name) {
            Ok(found) if found.spec().compiler == build => Ok(found),
            _ => Self::open(""),
        }
    }

    /// Returns the options of the compiler.
    pub fn options(&self) -> &GccOptions {
        &self.0.compiler.options
    }

    /// Returns the program that begins where all choices are made at once: the state of `program`,
    /// which is a preprocessed source or a state, with these choices in place of its own. There is
    /// one for each option, in their order, from 0, and -1 for an option that is absent.
    ///
    /// # Errors
    ///
    /// [`SessionError::BadProgram`] if the program or the choices are none of this compiler.
    pub fn program(&self, program: &[u8], choices: &[i32]) -> Result<Vec<u8>, SessionError> {
        let bad = |detail| SessionError::BadProgram { uri: "a program".to_owned(), detail };
        let options = self.options();
        let mut state = GccState::parse(options, program).map_err(bad)?;
        let list = options.list();
        if choices.len() != list.len() {
            let (given, wanted) = (choices.len(), list.len());
            return Err(bad(format!("there are {given} choices, and {wanted} options")));
        }
        for (option, choice) in list.iter().zip(choices) {
            if !(-1..=option.last_choice()).contains(choice) {
                let (label, last) = (option.label(), option.last_choice());
                let detail = format!("{label} has no choice {choice}: -1 to {last} are");
                return Err(bad(detail));
            }
        }
        state.choices = OptionChoices(choices.into());
        Ok(state.serialise(options))
    }
}

impl Environment for GccEnvironment {
    fn spec(&self) -> &EnvironmentSpec {
        &self.0.spec
    }

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(GccSession::new(Arc::clone(&self.0))))
    }

    /// A session that shares no output with others: each of its compilations is a process of its
    /// own.
    fn audit_session(&self) -> Result<Option<Box<dyn Session>>, SessionError> {
        self.within(&self.0.config.clone().of_an_audit()).map(|other| other.session()).transpose()
    }

    fn within(&self, config: &WorkerConfig) -> Option<Box<dyn Environment>> {
        let GccContext { spec, compiler, actions, observations, .. } = &*self.0;
        Some(Box::new(Self(Arc::new(GccContext {
            spec: spec.clone(),
            compiler: Arc::clone(compiler),
            actions: actions.clone(),
            observations: observations.clone(),
            config: config.clone(),
            // How the compiler fails depends on the limits.
            outputs: Arc::default(),
        }))))
    }

    /// A state is the whole source, and no compiler is needed to make it again: to store all of
    /// them would take thirty times the space, and most of a walk's time.
    fn keyframes(&self) -> NonZeroU32 {
        KEYFRAMES
    }

    fn choices(&self) -> Option<&dyn MadeOfChoices> {
        Some(self)
    }

    fn front_end(&self) -> FrontEnd {
        let Compiler { driver, build, cc1, .. } = &*self.0.compiler;
        FrontEnd::Gcc(Preprocessor::new(driver.clone(), build.clone(), cc1.read.clone()))
    }
}

impl MadeOfChoices for GccEnvironment {
    fn options(&self) -> Vec<Choosable> {
        let choosable = |option: &GccOption| Choosable {
            last: option.last_choice(),
            are_numbers: matches!(option.values, OptionValues::Range { .. }),
        };
        self.options().list().iter().map(choosable).collect()
    }

    /// Nothing is set, and each level of optimisation alone.
    fn starts(&self) -> Vec<Box<[i32]>> {
        let options = self.options();
        let none = OptionChoices::none(options).0;
        let list = options.list().iter().enumerate();
        let levels = list.filter(|(_, option)| option.family == OptionFamily::Level);
        let levels =
            levels.flat_map(|(at, option)| (0..=option.last_choice()).map(move |of| (at, of)));
        let alone = levels.map(|(at, choice)| {
            let mut choices = none.clone();
            choices[at] = choice;
            choices
        });
        std::iter::once(none.clone()).chain(alone).collect()
    }

    fn read(&self, options: &str) -> Result<Box<[i32]>, String> {
        Ok(OptionChoices::parse(self.options(), options)?.0)
    }

    fn program(&self, program: &[u8], choices: &[i32]) -> Result<Vec<u8>, SessionError> {
        Self::program(self, program, choices)
    }

    fn object_of_source(
        &self,
        name: &str,
        source: &str,
        choices: &[i32],
    ) -> Result<Result<Vec<u8>, Failure>, SessionError> {
        let GccContext { compiler, config, .. } = &*self.0;
        let words = OptionChoices(choices.into()).words(&compiler.options);
        let mut workplace = Workplace::new(Arc::clone(compiler), config.clone());
        answer(workplace.object_of_source((name, source.as_bytes()), &words))
    }
}
