//! The life of a certificate: ordered if there is none, renewed in time, tried again after failures.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crocodile_pear::unstable::runtime::random::share;
use futures_util::future::BoxFuture;
use instant_acme::CertificateIdentifier;
use rustls::pki_types::CertificateDer;
use tokio::time::{Instant, sleep};

use super::authority::Wanted;
use super::failure::{FailureCause, OrderFailure};
use super::order::order;
use super::schedule::{Backoff, Window, unadvised};
use super::store::{FileStamp, Lock};
use super::transport;
use crate::listeners::spec::{ChallengeSpec, SOON};
use crate::server::{Acquired, Day, Identity, Unfit};
use crate::telemetry::metrics::OrderCounters;

/// How often the folder is looked at: another gateway may have renewed. And how long is slept at most, since the clock of the
/// machine may be set, or stand still while it sleeps.
const LOOK: Duration = Duration::from_secs(60);

/// While another gateway orders the same, its result is looked for.
const LOOK_OFTEN: Duration = Duration::from_secs(5);

/// From one certificate to the order of the next, or a twentieth of its life.
const BETWEEN: Duration = Duration::from_secs(60 * 60);

/// The time after which an authority that gave no window is asked again (RFC 9773, 4.3.3).
const WITHOUT_WINDOW: Duration = Duration::from_secs(6 * 60 * 60);

/// Where a certificate comes from and where it is kept.
pub trait CertificateSource: Send + Sync {
    /// The file with the certificate as it is now.
    fn stamp(&self) -> Option<FileStamp>;

    /// Reads the file.
    fn read(&self, now: SystemTime) -> Result<Identity, String>;

    /// Orders one, as of a challenge, and keeps it. Nothing, if another gateway does so.
    fn issue<'a>(
        &'a self,
        challenge: ChallengeSpec,
        replaced: Option<&'a CertificateDer<'static>>,
    ) -> BoxFuture<'a, Result<Option<()>, OrderFailure>>;

    /// When the authority wants it to be renewed.
    fn window<'a>(&'a self, own: &'a CertificateDer<'static>) -> BoxFuture<'a, Result<Window, OrderFailure>>;

    /// The challenges to try, in turn.
    fn challenges(&self) -> &[ChallengeSpec];

    /// The name of the authority.
    fn authority(&self) -> &str;
}

/// A certificate that is looked after.
pub struct Renewal<I> {
    issuer: I,
    acquired: Arc<Acquired>,
    counters: Arc<OrderCounters>,
    clock: fn() -> SystemTime,
    /// The file as it was read.
    read: Option<FileStamp>,
    plan: Option<Plan>,
    backoff: Backoff,
    /// No order before this.
    pause: Option<Instant>,
    /// Refusals in a row: each challenge has its turn.
    refusals: usize,
}

/// When the certificate that there is is renewed.
struct Plan {
    begin: SystemTime,
    expiry: SystemTime,
    own: CertificateDer<'static>,
    /// Where in a window.
    share: f64,
    renew: SystemTime,
    /// When to ask for the window.
    ask: SystemTime,
    /// How often in a row asking for it failed.
    failed_queries: u32,
}

impl<I: CertificateSource> Renewal<I> {
    pub fn new(issuer: I, acquired: Arc<Acquired>, counters: Arc<OrderCounters>) -> Self {
        Renewal {
            issuer,
            acquired,
            counters,
            clock: SystemTime::now,
            read: None,
            plan: None,
            backoff: Backoff::default(),
            pause: None,
            refusals: 0,
        }
    }

    /// Uses the certificate that is kept, if it is another one than before.
    pub fn adopt(&mut self) {
        let stamp = self.issuer.stamp();
        if stamp.is_none() || stamp == self.read {
            return;
        }
        self.read = stamp;
        let name = self.acquired.name.as_str();
        match self.issuer.read((self.clock)()) {
            Ok(identity) => {
                self.plan = Plan::new(&identity, (self.clock)());
                if let Some(plan) = &self.plan {
                    self.counters.set_renewal(plan.renew);
                }
                self.acquired.set(identity);
                (self.backoff, self.pause, self.refusals) = (Backoff::default(), None, 0);
            }
            Err(reason) => tracing::warn!(name, "the kept certificate cannot be used: {reason}; ordering a new one"),
        }
    }

    /// Looks after it for ever.
    pub async fn run(mut self) {
        loop {
            self.adopt();
            let now = (self.clock)();
            if self.plan.as_ref().is_some_and(|plan| plan.ask <= now) {
                self.ask(now).await;
            }
            let wait = match &self.plan {
                Some(plan) if plan.renew > now => {
                    let soonest = plan.renew.min(plan.ask.max(now));
                    soonest.duration_since(now).unwrap_or_default().min(LOOK)
                }
                _ => self.order().await,
            };
            // A moment at least: clocks are not of one mind.
            sleep(wait.max(Duration::from_millis(100))).await;
        }
    }

    /// Asks when to renew.
    async fn ask(&mut self, now: SystemTime) {
        let Some(plan) = &mut self.plan else { return };
        match self.issuer.window(&plan.own).await {
            Ok(window) => {
                plan.failed_queries = 0;
                let renew = window.moment(plan.begin, plan.expiry, plan.share);
                if let Some(why) = window.explanation.as_deref().filter(|_| renew != plan.renew) {
                    tracing::info!(name = self.acquired.name, why, renew = %Day(renew), "the CA asks for a renewal");
                }
                (plan.renew, plan.ask) = (renew, now + window.next());
                self.counters.set_renewal(renew);
            }
            Err(failure) if failure.cause == FailureCause::Unsupported => plan.ask = now + WITHOUT_WINDOW,
            Err(failure) => {
                let wait = (LOOK * (1 << plan.failed_queries.min(10)))
                    .min(WITHOUT_WINDOW)
                    .max(failure.after.unwrap_or_default());
                plan.failed_queries += 1;
                plan.ask = now + wait;
                let (name, authority) = (self.acquired.name.as_str(), self.issuer.authority());
                tracing::debug!(name, authority, "the authority does not announce when to renew: {failure}");
            }
        }
    }

    /// Orders it; answers how long to wait.
    async fn order(&mut self) -> Duration {
        if let Some(pause) = self.pause.filter(|pause| *pause > Instant::now()) {
            return pause.duration_since(Instant::now()).min(LOOK);
        }
        let challenges = self.issuer.challenges();
        let Some(&challenge) = challenges.get(self.refusals % challenges.len().max(1)) else { return LOOK };
        let replaced = self.plan.as_ref().map(|plan| plan.own.clone());
        let issued = self.issuer.issue(challenge, replaced.as_ref()).await;
        let (name, authority) = (self.acquired.name.clone(), self.issuer.authority().to_owned());
        let challenge = challenge.word();
        match issued {
            Ok(None) => LOOK_OFTEN,
            Ok(Some(())) => {
                self.counters.count_issued();
                let before = self.read;
                self.adopt();
                let Some(plan) = self.plan.as_ref().filter(|_| self.read != before) else { return LOOK };
                // Whatever the authority says of when to renew, its limits are kept.
                let life = plan.expiry.duration_since(plan.begin).unwrap_or_default();
                self.pause = Some(Instant::now() + (life / 20).min(BETWEEN));
                let (expires, renewal) = (Day(plan.expiry).to_string(), Day(plan.renew).to_string());
                tracing::info!(name, authority, challenge, expires, renewal, "a certificate was issued");
                Duration::ZERO
            }
            Err(failure) => {
                self.counters.count_failed();
                let wait = self.backoff.next(&failure, share());
                self.pause = Some(Instant::now() + wait);
                self.refusals += usize::from(failure.cause == FailureCause::Refused);
                let next = format!("{} s", wait.as_secs());
                let now = (self.clock)();
                // There is time for more attempts.
                if self.plan.as_ref().is_some_and(|plan| plan.expiry > now + SOON) {
                    tracing::warn!(name, authority, challenge, next, "the certificate was not renewed: {failure}");
                } else {
                    tracing::error!(name, authority, challenge, next, "no certificate was issued: {failure}");
                }
                wait.min(LOOK)
            }
        }
    }
}

impl Plan {
    fn new(identity: &Identity, now: SystemTime) -> Option<Self> {
        let (begin, expiry, own) = (identity.begin, identity.expiry, identity.own()?.clone());
        let share = share();
        let renew = unadvised(begin, expiry, share);
        Some(Plan { begin, expiry, own, share, renew, ask: now, failed_queries: 0 })
    }
}

impl Wanted {
    fn file(&self) -> String {
        format!("{}.pem", self.name)
    }

    fn lock(&self) -> Result<Option<Lock>, OrderFailure> {
        self.authority.store.lock(&self.name).map_err(|error| self.authority.unwritable(&error))
    }
}

impl CertificateSource for Wanted {
    fn stamp(&self) -> Option<FileStamp> {
        self.authority.store.stamp(&self.file())
    }

    fn read(&self, now: SystemTime) -> Result<Identity, String> {
        let pem = self.authority.store.read(&self.file()).map_err(|error| error.to_string())?;
        parse(&pem, &self.name, now)
    }

    fn issue<'a>(
        &'a self,
        challenge: ChallengeSpec,
        replaced: Option<&'a CertificateDer<'static>>,
    ) -> BoxFuture<'a, Result<Option<()>, OrderFailure>> {
        Box::pin(async move {
            let Some(_lock) = self.lock()? else { return Ok(None) };
            let pem = order(self, challenge, replaced).await?;
            let unfit =
                |reason| OrderFailure::new(FailureCause::Refused, format!("the certificate cannot be used: {reason}"));
            parse(pem.as_bytes(), &self.name, SystemTime::now()).map_err(unfit)?;
            let kept = self.authority.store.write(&self.file(), pem.as_bytes());
            kept.map(Some).map_err(|error| self.authority.unwritable(&error))
        })
    }

    fn window<'a>(&'a self, own: &'a CertificateDer<'static>) -> BoxFuture<'a, Result<Window, OrderFailure>> {
        Box::pin(transport::noting(async move {
            let Ok(id) = CertificateIdentifier::try_from(own) else {
                return Err(OrderFailure::new(FailureCause::Unsupported, "the certificate names no authority"));
            };
            let asked = async { self.authority.account().await?.renewal_info(&id).await.map_err(OrderFailure::from) };
            let asked = asked.await;
            if asked.is_err() {
                self.authority.forget().await;
            }
            let (told, again) = asked?;
            let (start, end) = (told.suggested_window.start.into(), told.suggested_window.end.into());
            if end <= start {
                return Err(OrderFailure::new(FailureCause::Refused, "the window ends before it begins"));
            }
            Ok(Window { start, end, again, explanation: told.explanation_url })
        }))
    }

    fn challenges(&self) -> &[ChallengeSpec] {
        &self.challenges
    }

    fn authority(&self) -> &str {
        self.authority.name()
    }
}

/// A key and a chain in one file: they change together.
fn parse(pem: &[u8], name: &str, now: SystemTime) -> Result<Identity, String> {
    let identity = Identity::read(pem, pem, now).map_err(|unfit| match unfit {
        Unfit::Certificate(message) | Unfit::Key(message) => message,
    })?;
    match identity.names.iter().any(|known| known == name) {
        true => Ok(identity),
        false => Err(format!("it is for {}", identity.names.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::VecDeque;
    use std::sync::Mutex;
    use std::time::UNIX_EPOCH;

    use rcgen::{CertificateParams, KeyPair};

    use super::*;
    use ChallengeSpec::{Http01, TlsAlpn01};

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    thread_local! {
        static START: Cell<Option<Instant>> = const { Cell::new(None) };
    }

    /// The wall clock, which follows tokio's.
    fn clock() -> SystemTime {
        let start = START.get().unwrap_or_else(Instant::now);
        START.set(Some(start));
        UNIX_EPOCH + 20_000 * DAY + start.elapsed()
    }

    fn since_start() -> Duration {
        clock().duration_since(UNIX_EPOCH + 20_000 * DAY).unwrap_or_default()
    }

    /// An authority that follows a script.
    #[derive(Default)]
    struct Script {
        /// The results of orders; after the last a certificate for 90 days.
        results: Mutex<VecDeque<Result<Option<()>, OrderFailure>>>,
        orders: Mutex<Vec<(Duration, ChallengeSpec)>>,
        /// The window from a time on, in days.
        windows: Vec<(u64, (u64, u64))>,
        asked: Mutex<Vec<Duration>>,
        kept: Mutex<Option<(u64, Vec<u8>)>>,
    }

    impl Script {
        /// Keeps a certificate that is valid for so many days from now on.
        fn keep(&self, days: u32) {
            let mut params = CertificateParams::new(["shop.example".to_owned()]).expect("a name");
            (params.not_before, params.not_after) = (clock().into(), (clock() + days * DAY).into());
            let key = KeyPair::generate().expect("a key");
            let certificate = params.self_signed(&key).expect("signed");
            let mut kept = self.kept.lock().expect("unpoisoned");
            let number = kept.as_ref().map_or(0, |(number, _)| number + 1);
            *kept = Some((number, [key.serialize_pem(), certificate.pem()].concat().into_bytes()));
        }
    }

    impl CertificateSource for Arc<Script> {
        fn stamp(&self) -> Option<FileStamp> {
            self.kept.lock().expect("unpoisoned").as_ref().map(|(number, _)| (*number, 0, 0, 0))
        }

        fn read(&self, now: SystemTime) -> Result<Identity, String> {
            let kept = self.kept.lock().expect("unpoisoned");
            parse(&kept.as_ref().expect("kept").1, "shop.example", now)
        }

        fn issue<'a>(
            &'a self,
            challenge: ChallengeSpec,
            _: Option<&'a CertificateDer<'static>>,
        ) -> BoxFuture<'a, Result<Option<()>, OrderFailure>> {
            self.orders.lock().expect("unpoisoned").push((since_start(), challenge));
            let result = self.results.lock().expect("unpoisoned").pop_front().unwrap_or_else(|| {
                self.keep(90);
                Ok(Some(()))
            });
            Box::pin(async { result })
        }

        fn window<'a>(&'a self, _: &'a CertificateDer<'static>) -> BoxFuture<'a, Result<Window, OrderFailure>> {
            self.asked.lock().expect("unpoisoned").push(since_start());
            let today = since_start().as_secs() / DAY.as_secs();
            let window = self.windows.iter().rfind(|(from, _)| *from <= today).map(|(_, window)| *window);
            let day = |day: u64| UNIX_EPOCH + (20_000 + u32::try_from(day).expect("a day")) * DAY;
            Box::pin(async move {
                let none = || OrderFailure::new(FailureCause::Unsupported, "no windows");
                let (start, end) = window.ok_or_else(none)?;
                Ok(Window { start: day(start), end: day(end), again: DAY / 4, explanation: None })
            })
        }

        fn challenges(&self) -> &[ChallengeSpec] {
            &[Http01, TlsAlpn01]
        }

        fn authority(&self) -> &str {
            "https://authority.example"
        }
    }

    /// Looks after a certificate for so long.
    async fn look_after(script: &Arc<Script>, time: Duration) -> Arc<Acquired> {
        clock();
        let acquired = Arc::new(Acquired::new("shop.example".to_owned()));
        let renewal = Renewal { clock, ..Renewal::new(script.clone(), acquired.clone(), Arc::default()) };
        let _ = tokio::time::timeout(time, renewal.run()).await;
        acquired
    }

    fn orders(script: &Script) -> Vec<(Duration, ChallengeSpec)> {
        script.orders.lock().expect("unpoisoned").clone()
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_are_tried_again_ever_later_and_in_another_way() {
        let refused = |after| OrderFailure { after, ..OrderFailure::new(FailureCause::Refused, "no") };
        let away = OrderFailure::new(FailureCause::Unreachable, "away");
        let failures = [refused(None), away, refused(Some(DAY / 24)), refused(None)];
        let script = Script { results: Mutex::new(failures.into_iter().map(Err).collect()), ..Script::default() };
        let script = Arc::new(script);
        let acquired = look_after(&script, DAY).await;
        let orders = orders(&script);
        // Being away costs no challenge its turn.
        let challenges: Vec<_> = orders.iter().map(|(_, challenge)| *challenge).collect();
        assert_eq!(challenges, [Http01, TlsAlpn01, TlsAlpn01, Http01, TlsAlpn01]);
        let waits = orders.windows(2).map(|pair| (pair[1].0 - pair[0].0).as_secs());
        for (wait, (least, most)) in waits.zip([(120, 133), (10, 12), (3600, 3961), (960, 1057)]) {
            assert!((least..=most).contains(&wait), "{wait} {orders:?}");
        }
        assert!(acquired.get().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn without_advice_a_third_of_its_life_is_left() {
        let script = Arc::new(Script::default());
        script.keep(90);
        look_after(&script, 60 * DAY).await;
        let [(renewed, _)] = orders(&script)[..] else { panic!("{:?}", orders(&script)) };
        assert!((57 * DAY..60 * DAY).contains(&renewed), "{renewed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_authority_is_asked_when_it_wants_to_be_and_its_window_is_kept() {
        let script = Arc::new(Script { windows: vec![(0, (70, 72)), (5, (20, 22))], ..Script::default() });
        script.keep(90);
        look_after(&script, 20 * DAY).await;
        let asked = script.asked.lock().expect("unpoisoned").len();
        assert!((78..=81).contains(&asked), "{asked}");
        assert!(orders(&script).is_empty());

        START.set(None);
        let script = Arc::new(Script { windows: vec![(0, (70, 72)), (5, (20, 22))], ..Script::default() });
        script.keep(90);
        look_after(&script, 22 * DAY).await;
        let (renewed, _) = orders(&script)[0];
        assert!((20 * DAY..22 * DAY).contains(&renewed), "{renewed:?}");
        // The authority goes on wanting it: its limits are kept all the same.
        let orders = orders(&script).len();
        assert!(orders < 50, "{orders}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_another_gateway_has_ordered_is_used() {
        let script = Script { results: Mutex::new([Ok(None), Ok(None)].into()), ..Script::default() };
        let script = Arc::new(script);
        let other = async {
            sleep(Duration::from_secs(7)).await;
            script.keep(90);
            std::future::pending::<()>().await;
        };
        let acquired = tokio::select! {
            acquired = look_after(&script, DAY) => acquired,
            () = other => unreachable!("it waits for ever"),
        };
        assert_eq!(orders(&script).len(), 2);
        assert!(acquired.get().is_some());
    }

    #[test]
    fn a_kept_certificate_is_for_its_name() {
        let script = Script::default();
        script.keep(1);
        let pem = script.kept.lock().expect("unpoisoned").take().expect("kept").1;
        assert!(parse(&pem, "shop.example", clock() + DAY / 2).is_ok());
        assert_eq!(parse(&pem, "other.example", clock()).err().as_deref(), Some("it is for shop.example"));
        let late = parse(&pem, "shop.example", clock() + 2 * DAY).err();
        assert!(late.as_deref().is_some_and(|text| text.contains("expired")), "{late:?}");
    }
}
