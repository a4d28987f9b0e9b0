//! A value that cannot be used.

/// Names the variable or flag, its value, the cause and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}={value:?} {cause}: {remedy}")]
pub struct SettingError {
    pub name: &'static str,
    pub value: String,
    pub cause: String,
    pub remedy: String,
}
