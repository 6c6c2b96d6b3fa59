//! How often a process wakes up while much happens.
//!
//! To wake up costs about the same whether one answer is there or twenty, and a machine that is busy has forgotten by then what a
//! process worked with. So a process that was woken often stays away for some milliseconds, and then takes all that came meanwhile,
//! as a network card does with its interrupts. When that goes on for long it stays away for longer, but not beyond what its clock makes
//! due ([`crate::Alarm`]), and not while much of what it asked for is answered: a server that is fast is not waited for. One that is rarely
//! woken never waits.

mod outlook;
mod thread;
mod work;

use std::time::Duration;

use bailiff_model::Mono;

use crate::client::TokenBucket;
use outlook::Asked;
pub(crate) use outlook::{Waiting, expect};
pub use thread::{OneThread, single_threaded};

/// Wakes in a row that are not waited for: a node that fails, or a pod that is due, meets a process that rested.
const BURST: u32 = 16;

/// Who stayed away for so long in sum is busy for long. Time without work takes [`RECOVERY`] times itself off.
const LASTING: Duration = Duration::from_secs(3);

/// See [`LASTING`].
const RECOVERY: u32 = 8;

/// What takes that much processor time costs far more than to wake up for it, and does not count: a long list is not read in turns.
const WORTH_IT: Duration = Duration::from_millis(1);

/// [`MANY`] answers do count, unless they took more than this part of the time that the process stayed away just before, or of a brief one:
/// they came in all that time, and to look again at once would find two or three.
const WORTH_IT_AFTER: u32 = 4;

/// So many answers at once were not a list.
const MANY: u64 = 8;

/// The share of what is open, as one of so many, that may have been answered before the process looks: the server is never out of work.
const SOME: u128 = 8;

/// How often a process wakes up at most: as often as it likes if one of both is no rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// So many times a second, after a few.
    pub per_second: f64,
    /// So many times a second once that has gone on for three seconds, unless the clock makes something due, or some of what is asked
    /// for is answered before.
    pub lasting: f64,
}

/// How many wakes there may be, and how it went.
#[derive(Debug)]
pub struct Wakes {
    bucket: TokenBucket,
    /// From one look to the next, after a few.
    interval: Duration,
    /// The same at most, once that goes on for long.
    longest: Duration,
    woke: Mono,
    /// From when on it waited for what came.
    waits: Mono,
    /// How long it stayed away just before it woke, if it did.
    rested: Duration,
    away: Away,
    /// For how long it stayed away, up to [`LASTING`], less what it was not needed for.
    busy: Duration,
}

/// When the process stayed away last.
#[derive(Clone, Copy, Debug)]
struct Away {
    since: Mono,
    /// How long it was to be from one look to the next.
    time: Duration,
    /// Requests that were answered before.
    answered: u64,
}

// === impl Pace ===

impl Pace {
    /// Of what nobody waits for to the millisecond.
    pub const USUAL: Self = Self {
        per_second: 32.0,
        lasting: 8.0,
    };

    /// The same however long it goes on.
    pub const fn steady(per_second: f64) -> Self {
        Self {
            per_second,
            lasting: per_second,
        }
    }
}

// === impl Wakes ===

impl Wakes {
    /// At most as often as `pace` has it; `None` if one of both is no rate.
    pub fn new(pace: Pace) -> Option<Self> {
        let interval = Duration::try_from_secs_f64(1.0 / pace.per_second).ok()?;
        let longest = Duration::try_from_secs_f64(1.0 / pace.lasting).ok()?;
        Some(Self {
            bucket: TokenBucket::new(pace.per_second, BURST)?,
            interval,
            longest: longest.max(interval),
            woke: Mono::ORIGIN,
            waits: Mono::ORIGIN,
            rested: Duration::ZERO,
            away: Away {
                since: Mono::ORIGIN,
                time: Duration::ZERO,
                answered: 0,
            },
            busy: Duration::ZERO,
        })
    }

    /// All is done, which took the processor that long, and it waits for what comes: how long it stays away before it looks. Something may
    /// be due in `due`.
    fn done(&mut self, now: Mono, took: Duration, due: Option<Duration>, asked: Asked) -> Duration {
        self.waits = now;
        let rested = std::mem::take(&mut self.rested);
        let worth_it = if self.answered(asked) < MANY {
            WORTH_IT
        } else {
            WORTH_IT.max(rested.min(self.interval) / WORTH_IT_AFTER)
        };
        if took >= worth_it {
            return Duration::ZERO;
        }
        let brief = match self.bucket.try_take(now) {
            Ok(()) => Duration::ZERO,
            Err(at) => {
                // There is one by then.
                let _ = self.bucket.try_take(at);
                at.saturating_since(now)
            }
        };
        let time = if self.busy < LASTING {
            brief
        } else {
            self.lasting(now, due, asked)
        };
        if !time.is_zero() {
            self.waits = now + time;
            self.rested = time;
            self.busy = LASTING.min(self.busy + time);
            self.away = Away {
                since: now,
                time: now.saturating_since(self.woke) + time,
                answered: asked.answered,
            };
        }
        time
    }

    /// How long it stays away if that goes on for long. From one look to the next it is not twice as long as before at once, and what it
    /// was at work is in that.
    fn lasting(&self, now: Mono, due: Option<Duration>, asked: Asked) -> Duration {
        let awake = now.saturating_since(self.woke);
        let turn = self.longest.min(self.away.time * 2);
        let turn = self.some_answered_in(now, asked).map_or(turn, |some| turn.min(some));
        let least = self.interval.saturating_sub(awake);
        let most = turn.max(self.interval).saturating_sub(awake);
        due.map_or(most, |due| due.clamp(least, most))
    }

    /// How long it takes until [`SOME`] of what is open is answered, if that goes on as since it stayed away last; `None` if nothing was.
    fn some_answered_in(&self, now: Mono, asked: Asked) -> Option<Duration> {
        let answered = u128::from(self.answered(asked));
        let nanos = now
            .saturating_since(self.away.since)
            .as_nanos()
            .saturating_mul(asked.open.into());
        let is_known = answered > 0 && asked.open > 0;
        is_known.then(|| Duration::from_nanos_u128(nanos / (SOME * answered)))
    }

    /// Requests that were answered since it stayed away last.
    const fn answered(&self, asked: Asked) -> u64 {
        asked.answered.saturating_sub(self.away.answered)
    }

    fn woke(&mut self, now: Mono) {
        self.woke = now;
        let idle = now.saturating_since(self.waits).saturating_sub(self.interval);
        self.busy = self.busy.saturating_sub(idle * RECOVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock;

    const LIMIT: Duration = Duration::from_nanos(31_250_000);
    const LASTING_LIMIT: Duration = Duration::from_millis(125);

    fn at(micros: u64) -> Mono {
        Mono::from_origin(Duration::from_micros(micros))
    }

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    /// What keeps a process busy.
    struct Load {
        /// It comes so often,
        every: Duration,
        /// takes so long,
        work: Duration,
        /// and the clock makes something due so often.
        due: Option<Duration>,
    }

    /// Plays a load for so long: how often the process woke, and how long it stayed away at most.
    fn play(wakes: &mut Wakes, load: &Load, until: Duration) -> (u32, Duration) {
        let (mut now, mut count, mut longest) = (wakes.woke, 0, Duration::ZERO);
        let end = now + until;
        while now < end {
            wakes.woke(now);
            count += 1;
            now = now + load.work;
            let rest = wakes.done(now, load.work, load.due, Asked::default());
            longest = longest.max(rest);
            now = now + rest.max(load.every);
        }
        (count, longest)
    }

    const ANSWERS_EACH: Load = Load {
        every: Duration::from_micros(400),
        work: Duration::from_micros(100),
        due: None,
    };

    #[test]
    fn who_is_woken_often_stays_away_and_who_is_not_never_does() {
        let answers = |due| Load { due, ..ANSWERS_EACH };
        let looks = Load {
            every: micros(125_000),
            work: micros(400),
            due: None,
        };
        let list = Load {
            every: micros(100),
            work: micros(1_500),
            due: None,
        };
        // After three seconds eight a second; until then 32, and BURST before.
        let lasting = 3 * 32 + 57 * 8 + BURST;
        let cases = [
            ("an answer each 0.4 ms", answers(None), 2, 2 * 32 + BURST, Some(LIMIT)),
            ("the same for a minute", answers(None), 60, lasting, Some(LASTING_LIMIT)),
            (
                "and each 10 ms something is due",
                answers(Some(micros(10_000))),
                60,
                60 * 32 + BURST,
                Some(LIMIT),
            ),
            (
                "and each 0.1 s",
                answers(Some(micros(100_000))),
                60,
                3 * 32 + 57 * 10 + BURST,
                Some(micros(100_000)),
            ),
            ("a look each 125 ms", looks, 60, 480, None),
            ("a list that comes as fast as it is read", list, 10, 6_250, None),
        ];
        for (what, load, secs, wanted, limit) in cases {
            let mut wakes = Wakes::new(Pace::USUAL).expect("a pace");
            let (count, longest) = play(&mut wakes, &load, Duration::from_secs(secs));
            assert!(
                count.abs_diff(wanted) <= wanted / 20,
                "{what}: woke {count} times, not {wanted}"
            );
            assert!(longest <= limit.unwrap_or_default(), "{what}: stayed away for {longest:?}");
            assert_eq!(
                longest > Duration::ZERO,
                limit.is_some(),
                "{what}: stayed away for {longest:?}"
            );
        }
    }

    #[test]
    fn after_a_pause_a_burst_meets_nobody_who_is_away() {
        let mut wakes = Wakes::new(Pace::USUAL).expect("a pace");
        for pause in [0, 60_000_000] {
            let start = wakes.woke + micros(pause);
            let mut away = (0..=BURST).map(|turn| {
                let now = start + micros(turn.into());
                wakes.woke(now);
                wakes.done(now, Duration::ZERO, None, Asked::default())
            });
            let last = away.find(|rest| !rest.is_zero());
            assert!(last.is_some() && away.next().is_none());
        }
    }

    /// Who was busy for long is so no more after 0.4 s without work, and less so after a short while.
    #[test]
    fn who_has_nothing_to_do_recovers() {
        for (pause, wanted) in [(20_000, LASTING_LIMIT), (90_000, LIMIT), (410_000, LIMIT)] {
            let mut wakes = Wakes::new(Pace::USUAL).expect("a pace");
            let (_, longest) = play(&mut wakes, &ANSWERS_EACH, Duration::from_secs(10));
            assert_eq!(longest + ANSWERS_EACH.work, LASTING_LIMIT);
            wakes.woke = wakes.waits + micros(pause);
            let (_, longest) = play(&mut wakes, &ANSWERS_EACH, micros(400_000));
            assert_eq!(longest + ANSWERS_EACH.work, wanted, "after {pause} microseconds");
        }
    }

    /// A server answers so many requests a second of 256 that are under way. What was answered meanwhile is taken at once, which may take
    /// more than a millisecond, and others are asked for; little has come by then.
    #[test]
    fn a_server_is_waited_for_only_if_it_is_slow() {
        const OPEN: u64 = 256;
        let cases = [
            (100, LASTING_LIMIT),
            (250, LASTING_LIMIT),
            (500, micros(64_000)),
            (750, micros(42_667)),
            (2_500, LIMIT),
        ];
        for (per_second, wanted) in cases {
            let mut wakes = Wakes::new(Pace::USUAL).expect("a pace");
            let (mut now, mut answered, mut turn) = (at(0), 0, Duration::ZERO);
            for _ in 0..200 {
                let came = u64::try_from(turn.as_micros() * per_second / 1_000_000)
                    .expect("few")
                    .min(OPEN);
                answered += came;
                wakes.woke(now);
                let took = micros(200 + 40 * came);
                let asked = Asked { open: OPEN, answered };
                let rest = wakes.done(now + took, took, None, asked);
                turn = (took + rest).max(micros(1_000));
                now = now + turn;
            }
            assert!(
                turn.abs_diff(wanted) <= wanted / 10,
                "{per_second} a second: {turn:?}, not {wanted:?}"
            );
        }
    }

    /// Many answers may take more than a millisecond. What takes much of the time is read at once, and so is a list.
    #[test]
    fn who_takes_many_answers_stays_away_again_unless_there_is_more() {
        let cases = [
            (900, 0, true),
            (1_100, 0, false),
            (1_100, 7, false),
            (1_100, 8, true),
            (7_700, 8, true),
            (7_900, 8, false),
        ];
        for (for_long, (took, answered, wanted)) in [1, 10].into_iter().flat_map(|secs| cases.map(|case| (secs, case))) {
            let mut wakes = Wakes::new(Pace::USUAL).expect("a pace");
            play(&mut wakes, &ANSWERS_EACH, Duration::from_secs(for_long));
            let mut asked = Asked::default();
            let rests = [took, 1_100].map(|took| {
                wakes.woke(wakes.waits);
                asked.answered += answered;
                wakes.done(wakes.waits + micros(took), micros(took), None, asked)
            });
            let what = format!("{took} microseconds and {answered} answers after {for_long} s: {rests:?}");
            assert_eq!(!rests[0].is_zero(), wanted, "{what}");
            assert_eq!(!rests[1].is_zero(), wanted && answered >= 8, "{what}");
        }
    }

    /// From one look to the next it is as long as it is said to be, however long it was at work.
    #[test]
    fn work_is_no_time_on_top() {
        for (pace, wanted) in [(Pace::USUAL, LASTING_LIMIT), (Pace::steady(64.0), micros(15_625))] {
            let mut wakes = Wakes::new(pace).expect("a pace");
            play(&mut wakes, &ANSWERS_EACH, Duration::from_secs(10));
            for _ in 0..10 {
                let woke = wakes.waits;
                wakes.woke(woke);
                let rest = wakes.done(woke + micros(5_000), micros(900), None, Asked::default());
                assert_eq!((micros(5_000) + rest).as_millis(), wanted.as_millis(), "{pace:?}");
            }
        }
    }

    /// A moment in which a server answers little is no reason to stay away for long.
    #[test]
    fn it_stays_away_for_longer_by_and_by() {
        let mut wakes = Wakes::new(Pace::USUAL).expect("a pace");
        play(&mut wakes, &ANSWERS_EACH, Duration::from_secs(10));
        let mut now = wakes.waits;
        let rests = [Some(micros(1_000)), None, None, None].map(|due| {
            wakes.woke(now);
            let rest = wakes.done(now, Duration::ZERO, due, Asked::default());
            now = now + rest;
            rest
        });
        assert_eq!(rests.map(|rest| rest.as_millis()), [31, 62, 125, 125]);
    }

    /// Without turns it would take some 50 ms; with them it cannot take less than 240, however fast the machine is.
    #[test]
    fn a_runtime_stays_away_and_does_its_work() {
        const TURNS: u32 = 40;
        let clock = Clock::system();
        let runtime = single_threaded(Wakes::new(Pace::steady(100.0))).expect("a runtime");
        let before = clock.now().mono;
        runtime.block_on(async {
            for _ in 0..TURNS {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let took = clock.now().mono.saturating_since(before);
        assert!(took >= Duration::from_millis(10) * (TURNS - BURST - 1), "{took:?}");
    }

    #[test]
    fn what_is_no_rate_is_no_limit() {
        let pace = |per_second, lasting| Pace { per_second, lasting };
        assert!(
            [0.0, -1.0, f64::NAN]
                .into_iter()
                .all(|rate| Wakes::new(pace(rate, 8.0)).is_none())
        );
        assert!(
            [0.0, -1.0, f64::NAN]
                .into_iter()
                .all(|rate| Wakes::new(pace(32.0, rate)).is_none())
        );
    }
}
