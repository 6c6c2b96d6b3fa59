//! Callers in the middle of saying something.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Waker;

use bailiff_model::Wall;
use bailiff_runtime::{Clock, Seed};
use proptest::prelude::*;
use tonic::Code;

use super::*;
use crate::ServerOptions;

/// A body of these pieces, which then neither goes on nor ends.
struct Pieces(VecDeque<Bytes>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.0.pop_front() {
            Some(piece) => Poll::Ready(Some(Ok(Frame::data(piece)))),
            None => Poll::Pending,
        }
    }
}

/// A message of `len` bytes, of which so many are said.
fn mk_message(len: usize, said: usize) -> Vec<u8> {
    let head = u32::try_from(len).expect("it fits").to_be_bytes();
    let mut message = vec![0];
    message.extend(head);
    message.resize(HEAD + said, 7);
    message
}

/// Callers of one bus.
struct Rig(Intake<()>);

impl Rig {
    fn new() -> Self {
        let (clock, seed) = (Clock::virtual_from(Wall::UNIX_EPOCH), Seed::new(1));
        Self(Intake::new((), &Server::idle(ServerOptions::default(), &clock, &seed)))
    }

    fn mk_saying(&self, call: Call, bytes: Vec<u8>) -> Saying {
        let mut bytes = Bytes::from(bytes);
        let mut pieces = VecDeque::new();
        while !bytes.is_empty() {
            pieces.push_back(bytes.split_to(bytes.len().min(16 * 1024)));
        }
        let caller = Caller::ungated(&tonic::Extensions::new());
        self.0.listen(caller, call, Body::new(Pieces(pieces)))
    }

    /// The room that there is for questions, and for sessions.
    fn free(&self) -> (usize, usize) {
        (self.0.questions.available_permits(), self.0.sessions.available_permits())
    }
}

/// What the bus keeps of what is said: all that comes, until it is refused.
fn listen(saying: &mut Saying) -> Result<usize, Status> {
    let mut context = Context::from_waker(Waker::noop());
    let mut kept = 0;
    while let Poll::Ready(frame) = http_body::Body::poll_frame(Pin::new(&mut *saying), &mut context) {
        let frame = frame.expect("it does not end")?;
        kept += frame.data_ref().map_or(0, Bytes::len);
    }
    Ok(kept)
}

fn mk_opened(len: usize, said: usize) -> Vec<u8> {
    [mk_message(200, 200), mk_message(len, said)].concat()
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_of_messages_that_are_not_whole_is_bounded() {
    let rig = Rig::new();
    let mut begun = Vec::new();
    let mut kept = 0;
    for _ in 0..100 {
        let mut saying = rig.mk_saying(Call::Session, mk_opened(MESSAGE_MAX, MESSAGE_MAX - 1));
        match listen(&mut saying) {
            Ok(of_this) => {
                kept += of_this;
                begun.push(saying);
            }
            Err(refused) => {
                assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
                assert_eq!(status::kind(&refused), Some(MESSAGES));
            }
        }
    }
    assert_eq!((begun.len(), rig.free()), (8, (QUESTIONS_ROOM, 0)));
    assert!(kept <= SESSIONS_ROOM + 8 * 1024, "{kept}");
    let mut usual = rig.mk_saying(Call::Session, mk_opened(BATCH, BATCH - 1));
    listen(&mut usual).expect("what stages say needs no room");
    begun.pop();
    let mut next = rig.mk_saying(Call::Session, mk_opened(MESSAGE_MAX, MESSAGE_MAX - 1));
    listen(&mut next).expect("who left makes room");
}

/// Over etcd an answer takes a while, in which the records are there; and whoever decodes them keeps the memory.
#[tokio::test(start_paused = true)]
async fn a_session_has_room_for_its_longest_message_until_it_ends() {
    const LONG: usize = 1024 * 1024;
    let rig = Rig::new();
    let taken = || SESSIONS_ROOM - rig.free().1;
    let mut said = mk_opened(LONG, LONG);
    // Said before the first is answered, and so in the same piece as its end.
    said.extend(mk_message(BATCH, BATCH));
    let mut saying = rig.mk_saying(Call::Session, said);
    listen(&mut saying).expect("there is room");
    assert_eq!(taken(), LONG, "the next one is short");
    for (len, wanted) in [(LONG / 2, LONG), (LONG * 2, LONG * 2), (LONG, LONG * 2)] {
        saying.body = Body::new(Pieces(VecDeque::from([
            Bytes::from(mk_message(len, 1)),
            Bytes::from(vec![7; len - 1]),
        ])));
        listen(&mut saying).expect("there is room");
        assert_eq!(taken(), wanted, "after {len}");
    }
    drop(saying);
    assert_eq!(taken(), 0);
}

#[tokio::test(start_paused = true)]
async fn little_is_kept_before_it_is_known_what_a_call_is_about() {
    let rig = Rig::new();
    for (call, first, wanted) in [
        (Call::Session, mk_message(OPENING, OPENING), Ok(())),
        (Call::Session, mk_message(OPENING + 1, 1), Err("2048")),
        (Call::Question, mk_message(OPENING + 1, 1), Ok(())),
        (Call::Question, mk_message(QUESTION_MAX, 1), Ok(())),
        (Call::Question, mk_message(QUESTION_MAX + 1, 1), Err("524288")),
        (Call::Session, mk_opened(MESSAGE_MAX, 1), Ok(())),
        (Call::Session, mk_opened(MESSAGE_MAX + 1, 1), Err("4194304")),
        (Call::Session, mk_opened(u32::MAX as usize, 1), Err("4194304")),
    ] {
        let len = first.len();
        let found = listen(&mut rig.mk_saying(call, first));
        match wanted {
            Ok(()) => assert_eq!(found.expect("it is allowed"), len),
            Err(most) => {
                let refused = found.expect_err("it is too long");
                assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
                let wanted = format!("is not allowed, wanted at most {most} bytes");
                assert!(refused.message().ends_with(&wanted), "{refused:?}");
            }
        }
    }
    assert_eq!(rig.free(), (QUESTIONS_ROOM, SESSIONS_ROOM));
}

/// Nothing else would end it before its connection, which lasts an hour.
#[tokio::test(start_paused = true)]
async fn a_question_that_is_never_whole_is_given_up() {
    let rig = Rig::new();
    for said in [mk_message(100, 99), mk_message(100, 100), Vec::new()] {
        let mut saying = rig.mk_saying(Call::Question, said);
        let mut ended = async || loop {
            let next = poll_fn(|context| http_body::Body::poll_frame(Pin::new(&mut saying), context));
            if let Err(status) = next.await.expect("it does not end by itself") {
                return status;
            }
        };
        let status = tokio::time::timeout(ASKED_WITHIN * 2, ended()).await.expect("it ends");
        assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
        assert_eq!(status::kind(&status), Some(SILENT));
    }
}

proptest! {
    /// However they are cut into pieces.
    #[test]
    fn messages_are_found(
        lengths in prop::collection::vec(0_usize..40, 0..12),
        cuts in prop::collection::vec(1_usize..20, 1..200),
    ) {
        let bytes: Vec<u8> = lengths.iter().flat_map(|len| mk_message(*len, *len)).collect();
        let (mut messages, found) = (Messages::default(), std::cell::RefCell::new(Vec::new()));
        let (mut rest, mut cuts) = (&bytes[..], cuts.into_iter().cycle());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(cuts.next().unwrap_or(1).min(rest.len()));
            let allow = |number, len| {
                found.borrow_mut().push((number, len));
                Ok::<_, std::convert::Infallible>(())
            };
            messages.take(piece, allow).expect("all are allowed");
            rest = after;
        }
        let wanted: Vec<_> = (1..).zip(lengths).collect();
        prop_assert_eq!(found.into_inner(), wanted);
        prop_assert_eq!(messages.missing, 0);
    }
}
