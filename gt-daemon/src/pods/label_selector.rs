//! `--select`: a label selector as `kubectl -l` and the API write it.
//!
//! The grammar and the checks are those of the API server (k8s.io/apimachinery/pkg/labels), so that a selector
//! taken here is one the server takes, and a pod that matches here is one the server sends. Left out are `>`
//! and `<`, which only node affinity has a use for.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

use kube::core::{Expression, Selector, SelectorExt as _};

/// Requirements that a pod's labels have to meet, all of them; none: every pod does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(Selector);

impl LabelSelector {
    /// Whether there is no requirement.
    #[must_use]
    pub fn selects_all(&self) -> bool {
        self.0.selects_all()
    }

    /// Whether labels meet all requirements.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.matches(labels)
    }
}

/// As the API takes it.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for LabelSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parser = Parser { tokens: tokens(text)?, next: 0 };
        parser.selector().map(|requirements| Self(requirements.into_iter().collect())).map_err(|fault| {
            format!(
                "{text:?} is no label selector: {fault}; write it as for kubectl -l, such as app=igw,tier!=test or \
                 app in (a,b)"
            )
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Equals,
    Differs,
    Not,
    Comma,
    Open,
    Close,
    End,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => write!(f, "{word:?}"),
            Self::Equals => write!(f, "="),
            Self::Differs => write!(f, "!="),
            Self::Not => write!(f, "!"),
            Self::Comma => write!(f, "a comma"),
            Self::Open => write!(f, "("),
            Self::Close => write!(f, ")"),
            Self::End => write!(f, "the end"),
        }
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(first) = rest.next() {
        let token = match first {
            ' ' | '\t' | '\r' | '\n' => continue,
            '=' => {
                rest.next_if_eq(&'=');
                Token::Equals
            }
            '!' if rest.next_if_eq(&'=').is_some() => Token::Differs,
            '!' => Token::Not,
            ',' => Token::Comma,
            '(' => Token::Open,
            ')' => Token::Close,
            '<' | '>' => return Err(format!("{text:?}: gt's selectors have no {first}")),
            _ => {
                let mut word = String::from(first);
                while let Some(more) = rest.next_if(|c| !" \t\r\n=!,()<>".contains(*c)) {
                    word.push(more);
                }
                Token::Word(word)
            }
        };
        tokens.push(token);
    }
    Ok(tokens)
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.next).unwrap_or(&Token::End)
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    fn selector(&mut self) -> Result<Vec<Expression>, String> {
        let mut requirements = Vec::new();
        if *self.peek() == Token::End {
            return Ok(requirements);
        }
        loop {
            requirements.push(self.requirement()?);
            match self.take() {
                Token::End => return Ok(requirements),
                Token::Comma => {}
                other => return Err(format!("found {other}, expected a comma or the end")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Expression, String> {
        let absent = *self.peek() == Token::Not;
        if absent {
            self.take();
        }
        let key = match self.take() {
            Token::Word(word) => checked_key(word)?,
            other => return Err(format!("found {other}, expected the key of a label")),
        };
        if absent {
            return Ok(Expression::DoesNotExist(key));
        }
        match self.peek().clone() {
            Token::End | Token::Comma => Ok(Expression::Exists(key)),
            Token::Equals => Ok(Expression::Equal(key, self.value()?)),
            Token::Differs => Ok(Expression::NotEqual(key, self.value()?)),
            Token::Word(word) if word == "in" => Ok(Expression::In(key, self.values()?)),
            Token::Word(word) if word == "notin" => Ok(Expression::NotIn(key, self.values()?)),
            other => Err(format!("found {other}, expected one of =, ==, !=, in, notin")),
        }
    }

    /// The operator and one value, which may be empty.
    fn value(&mut self) -> Result<String, String> {
        self.take();
        match self.peek() {
            Token::End | Token::Comma => Ok(String::new()),
            Token::Word(_) => self.word().and_then(checked_value),
            other => Err(format!("found {other}, expected a value")),
        }
    }

    /// The operator and `(a,b)`; a place between the commas may be empty.
    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        self.take();
        if self.take() != Token::Open {
            return Err("expected ( after in or notin".to_owned());
        }
        let mut values = BTreeSet::new();
        loop {
            let value = match self.peek() {
                Token::Word(_) => self.word().and_then(checked_value)?,
                _ => String::new(),
            };
            values.insert(value);
            match self.take() {
                Token::Comma => {}
                Token::Close => return Ok(values),
                other => return Err(format!("found {other}, expected a comma or )")),
            }
        }
    }

    fn word(&mut self) -> Result<String, String> {
        match self.take() {
            Token::Word(word) => Ok(word),
            other => Err(format!("found {other}, expected a word")),
        }
    }
}

/// Letters, digits, `-`, `_`, `.`; the first and the last a letter or digit; at most 63.
fn is_name(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && ends(text.chars().next())
        && ends(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// Whether a text is a name as Kubernetes has them (RFC 1123): parts of lower case letters, digits and `-`, joined by
/// dots; at most 253.
#[must_use]
pub fn is_subdomain(text: &str) -> bool {
    let is_label = |label: &str| {
        let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        ends(label.chars().next())
            && ends(label.chars().next_back())
            && label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

fn checked_key(key: String) -> Result<String, String> {
    let valid = match key.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
        None => is_name(&key),
    };
    valid.then_some(()).ok_or_else(|| format!("{key:?} is no key of a label"))?;
    Ok(key)
}

fn checked_value(value: String) -> Result<String, String> {
    is_name(&value).then_some(()).ok_or_else(|| format!("{value:?} is no value of a label"))?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(text: &str) -> BTreeMap<String, String> {
        text.split_whitespace()
            .filter_map(|pair| pair.split_once('='))
            .map(|(k, v)| (k.into(), v.into()))
            .collect()
    }

    /// Exercises each operator against labels that have the key, have it otherwise, and have it not; the
    /// answers are those of the API server (labels.Requirement.Matches), so that both sides agree.
    #[test]
    fn answers_are_the_servers() {
        for (selector, has, otherwise, lacks) in [
            ("", true, true, true),
            ("app", true, true, false),
            ("!app", false, false, true),
            ("app=igw", true, false, false),
            ("app==igw", true, false, false),
            ("app = igw", true, false, false),
            ("app!=igw", false, true, true),
            ("app in (igw)", true, false, false),
            ("app in (a, igw ,b)", true, false, false),
            ("app notin (igw)", false, true, true),
            ("app notin (a,b)", true, true, true),
            ("app=igw,tier=edge", true, false, false),
            ("app=igw,!tier", false, false, false),
            ("app in ()", false, false, false),
            ("app=", false, false, false),
            ("app,tier in (edge,core)", true, true, false),
        ] {
            let parsed: LabelSelector = selector.parse().unwrap();
            for (pod, expected) in
                [("app=igw tier=edge", has), ("app=other tier=edge", otherwise), ("tier=edge", lacks)]
            {
                assert_eq!(parsed.matches(&labels(pod)), expected, "{selector:?} on {pod:?}");
            }
        }
        let empty: LabelSelector = "app in (,x)".parse().unwrap();
        assert!(empty.matches(&labels("app=")) && empty.matches(&labels("app=x")));
    }

    /// Exercises keywords as keys and values, and prefixed keys, so that nothing the server takes is refused.
    #[test]
    fn words_that_look_like_operators() {
        for (selector, pod) in [
            ("in=notin", "in=notin"),
            ("notin in (in,notin)", "notin=in"),
            ("app.kubernetes.io/name=igw", "app.kubernetes.io/name=igw"),
            ("in", "in=x"),
        ] {
            assert!(selector.parse::<LabelSelector>().unwrap().matches(&labels(pod)), "{selector}");
        }
    }

    /// Exercises wrong selectors, so that each is told with its text and what is right.
    #[test]
    fn faults() {
        for wrong in [
            ",",
            "a,",
            "a,,b",
            "=x",
            "a=b=c",
            "a b",
            "a in b",
            "a in (b",
            "a in b)",
            "a in (b c)",
            "!a=b",
            "!",
            "a!",
            "a=(b)",
            "-a=b",
            "a=b-",
            "a/b/c",
            "/a",
            "A.b/c=d",
            "a>1",
            "a<1",
            "ä=b",
            "a=!b",
        ] {
            let message = wrong.parse::<LabelSelector>().unwrap_err();
            assert!(message.contains(wrong), "{message}");
        }
        let long = "a".repeat(64);
        assert!(
            long.parse::<LabelSelector>().is_err() && format!("a={long}").parse::<LabelSelector>().is_err()
        );
    }

    proptest! {
        /// Exercises any text, so that none panics, and what is sent to the server means the same again.
        #[test]
        fn any_text(text in "[a-c=!,() ]{0,24}|.{0,40}") {
            if let Ok(parsed) = text.parse::<LabelSelector>() {
                prop_assert_eq!(parsed.to_string().parse::<LabelSelector>(), Ok(parsed));
            }
        }
    }
}
