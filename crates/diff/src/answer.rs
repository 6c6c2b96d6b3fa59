//! What is compared: the answer that an implementation gives to a question about one object, and why.

use std::fmt;

use bailiff_model::Wall;

/// What is asked of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Question {
    /// How a node is.
    Health,
    /// Whether a node is tainted, or emptied.
    Isolation,
    /// Whether a pod goes.
    Eviction,
    /// How disrupted a zone is.
    Zone,
    /// How far a DaemonSet is.
    Rollout,
}

bailiff_model::words! {
    /// Word of reports, and value in JSON.
    Question {
        Health => "health",
        Isolation => "isolation",
        Eviction => "eviction",
        Zone => "zone",
        Rollout => "rollout",
    }
}

/// A question about one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// What is asked.
    pub question: Question,
    /// Of what: `node worker-7`, `pod default/web-1`.
    pub object: String,
    /// Its uid, where objects of one name have to be told apart; or empty.
    pub uid: String,
}

/// An answer, and why it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The answer. Two that say the same are the same.
    pub says: String,
    /// A moment that belongs to it, by the wall clock. Two answers agree in it if it differs by less than the tolerance.
    pub at: Option<Wall>,
    /// How that is done, where it is told: two answers of which one does not tell it agree in it.
    pub how: Option<&'static str>,
    /// Why, for people. Never compared.
    pub why: String,
    /// It is given, and acted on when its turn comes: if the other side does not, that is no difference yet.
    pub in_turn: bool,
    /// It cannot be taken back: whatever is said later, this was decided.
    pub is_final: bool,
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Who does the work.
    Incumbent,
    /// Who is looked at beside it, and changes nothing.
    Candidate,
}

impl Side {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Incumbent, Self::Candidate];

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Incumbent => Self::Candidate,
            Self::Candidate => Self::Incumbent,
        }
    }
}

impl Key {
    /// A question about an object whose name is enough.
    pub fn new(question: Question, object: impl Into<String>) -> Self {
        Self {
            question,
            object: object.into(),
            uid: String::new(),
        }
    }

    /// A question about the object of this uid.
    #[must_use]
    pub fn of_uid(self, uid: impl Into<String>) -> Self {
        Self { uid: uid.into(), ..self }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.question.as_str(), self.object)
    }
}

impl Answer {
    /// An answer that is acted on at once.
    pub fn new(says: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            says: says.into(),
            at: None,
            how: None,
            why: why.into(),
            in_turn: false,
            is_final: false,
        }
    }

    /// The answer, with the moment that belongs to it.
    #[must_use]
    pub fn at(self, at: Wall) -> Self {
        Self { at: Some(at), ..self }
    }

    /// The answer, done in this way.
    #[must_use]
    pub fn by(self, how: &'static str) -> Self {
        Self { how: Some(how), ..self }
    }

    /// What it says, and how that is done, for people.
    pub fn words(&self) -> String {
        self.how
            .map_or_else(|| self.says.clone(), |how| format!("{}: {how}", self.says))
    }

    /// The answer, which cannot be taken back.
    #[must_use]
    pub fn for_good(self) -> Self {
        Self { is_final: true, ..self }
    }

    /// The answer, acted on when its turn comes.
    #[must_use]
    pub fn in_turn(self) -> Self {
        Self { in_turn: true, ..self }
    }
}
