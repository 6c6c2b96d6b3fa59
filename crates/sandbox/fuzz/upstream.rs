//! Mistakes of clients that the real server answers as its own, each seen there: nothing else is excused.

/// A mistake of the client that the real server, too, calls its own: each was seen there.
struct Upstream {
    status: u16,
    /// The methods that meet it.
    methods: &'static [&'static str],
    /// The content type that meets it, `""` for any.
    media: &'static str,
    /// How the message begins, and what else it has.
    message: (&'static str, &'static str),
}

const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

const UPSTREAM: [Upstream; 12] = [
    // A strategic merge patch with an operation that does not exist.
    Upstream {
        status: 500,
        methods: &["PATCH"],
        media: STRATEGIC,
        message: ("unknown patch type found in ", ""),
    },
    // A strategic merge patch with an element that does not say which it is.
    Upstream {
        status: 500,
        methods: &["PATCH"],
        media: STRATEGIC,
        message: ("map: ", " does not contain declared merge key: "),
    },
    // A strategic merge patch whose lists are not in the order that it asks for.
    Upstream {
        status: 500,
        methods: &["PATCH"],
        media: STRATEGIC,
        message: ("The order in patch list:\n", "\n doesn't match $setElementOrder list:\n"),
    },
    // A strategic merge patch that asks for an order which is no list.
    Upstream {
        status: 500,
        methods: &["PATCH"],
        media: STRATEGIC,
        message: ("$setElementOrder/", " is no list"),
    },
    // An apply of what has not the form of its type.
    Upstream {
        status: 500,
        methods: &["PATCH"],
        media: APPLY,
        message: ("failed to create typed patch object (", "): "),
    },
    // A new object with a revision.
    Upstream {
        status: 500,
        methods: &["POST", "PUT"],
        media: "",
        message: ("resourceVersion should not be set on objects to be created", ""),
    },
    // A changed object with a revision that is no number.
    Upstream {
        status: 500,
        methods: &["PUT", "PATCH"],
        media: "",
        message: ("strconv.ParseUint: parsing \"", "\": invalid syntax"),
    },
    // A get or a watch at a revision that is no number.
    Upstream {
        status: 500,
        methods: &["GET", "HEAD"],
        media: "",
        message: ("resourceVersion: Invalid value: \"", "\": invalid syntax"),
    },
    // A binding to what is no node.
    Upstream {
        status: 500,
        methods: &["POST"],
        media: "",
        message: (
            "target.kind: Unsupported value: \"",
            "\": supported values: \"Node\", \"<empty>\"",
        ),
    },
    // A binding to no node.
    Upstream {
        status: 500,
        methods: &["POST"],
        media: "",
        message: ("target.name: Required value", ""),
    },
    // An eviction of a pod with two budgets.
    Upstream {
        status: 500,
        methods: &["POST"],
        media: "",
        message: (
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            "",
        ),
    },
    // A read at a revision that is not reached in time.
    Upstream {
        status: 504,
        methods: &["GET", "HEAD"],
        media: "",
        message: ("Timeout: Too large resource version: ", ", current: "),
    },
];

/// Whether the real server blames itself for this, too.
pub fn is_upstream(status: u16, method: &str, media: &str, text: &str) -> bool {
    // The message is looked for in the body as it came, in whatever form.
    let plain = text.replace("\\\"", "\"");
    UPSTREAM.iter().any(|known| {
        known.status == status
            && known.methods.contains(&method)
            && (known.media.is_empty() || known.media == media)
            && (method == "HEAD"
                || plain
                    .find(known.message.0)
                    .is_some_and(|at| plain[at..].contains(known.message.1)))
    })
}
