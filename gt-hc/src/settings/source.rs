//! Which of flag, environment and default a value comes from.

use std::{collections::HashMap, env, ffi::OsString};

use super::{Name, SettingError};

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Flag(&'static str),
    Variable(&'static str),
    Default,
}

impl Source {
    /// In words, for a report.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Self::Flag(name) => name.to_owned(),
            Self::Variable(name) => format!("environment {name}"),
            Self::Default => "default".to_owned(),
        }
    }
}

/// What was given: flags, and a way to ask for environment variables.
pub struct Given<'a> {
    flags: HashMap<Name, String>,
    variable: &'a dyn Fn(&str) -> Option<OsString>,
}

/// The environment of this process.
#[must_use]
pub fn from_process(name: &str) -> Option<OsString> {
    env::var_os(name)
}

impl<'a> Given<'a> {
    #[must_use]
    pub fn new(
        flags: impl IntoIterator<Item = (Name, Option<String>)>,
        variable: &'a dyn Fn(&str) -> Option<OsString>,
    ) -> Self {
        let flags = flags.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        Self { flags, variable }
    }

    /// The text of a setting, and where it comes from: a flag before a variable before the default.
    pub fn value(&self, name: Name) -> Result<(String, Source), SettingError> {
        if let Some(value) = self.flags.get(&name) {
            return Ok((value.clone(), Source::Flag(name.flag())));
        }
        match (self.variable)(name.variable()).map(OsString::into_string) {
            None => Ok((name.default().to_owned(), Source::Default)),
            Some(Ok(value)) => Ok((value, Source::Variable(name.variable()))),
            Some(Err(raw)) => Err(SettingError {
                name: name.variable(),
                value: raw.to_string_lossy().into_owned(),
                cause: "is not UTF-8".to_owned(),
                remedy: format!("write it in plain text, or unset it to use {:?}", name.default()),
            }),
        }
    }

    /// An error about the value that was given for `name`.
    #[must_use]
    pub fn wrong(&self, name: Name, cause: String, remedy: &str) -> SettingError {
        let (value, source) =
            self.value(name).unwrap_or_else(|error| (error.value, Source::Variable(name.variable())));
        let (name, remedy) = match source {
            Source::Flag(flag) => (flag, remedy.to_owned()),
            Source::Variable(_) | Source::Default => {
                (name.variable(), format!("{remedy}; unset it to use {:?}", name.default()))
            }
        };
        SettingError { name, value, cause, remedy }
    }
}
