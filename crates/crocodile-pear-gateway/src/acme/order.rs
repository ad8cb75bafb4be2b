//! An order: from the request to the certificate (RFC 8555, 7.4).

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error, Identifier, NewOrder, Order, OrderStatus,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use rustls::pki_types::CertificateDer;
use tokio::time::{Instant, sleep};

use super::authority::Wanted;
use super::failure::{FailureCause, OrderFailure};
use super::store::{CertificateStore, TemporaryFile};
use super::transport;
use crate::listeners::spec::ChallengeSpec;
use crate::server::{http_file, tls_file};

/// How long an authority may take to check a name, or to sign.
const PATIENCE: Duration = Duration::from_secs(180);

/// How often it is asked: at first, and at most.
const FIRST: Duration = Duration::from_millis(250);
const SLOWEST: Duration = Duration::from_secs(10);

const NO_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";
const RATE_LIMITED: &str = "urn:ietf:params:acme:error:rateLimited";

/// Orders the certificate. `replaced` is the one that it is for, where there is one. Answers the key and the chain, as PEM.
pub async fn order(
    wanted: &Wanted,
    challenge: ChallengeSpec,
    replaced: Option<&CertificateDer<'static>>,
) -> Result<String, OrderFailure> {
    let authority = &wanted.authority;
    let _turn = authority.turns.acquire().await;
    let ordered = transport::noting(async {
        let account = authority.account().await?;
        match place(&account, wanted, replaced).await {
            Err(Error::Api(problem)) if problem.r#type.as_deref() == Some(NO_ACCOUNT) => {
                authority.discard(&account).await;
                let account = authority.account().await?;
                complete(place(&account, wanted, None).await?, wanted, challenge).await
            }
            placed => complete(placed?, wanted, challenge).await,
        }
    });
    let ordered = ordered.await;
    if ordered.is_err() {
        // The directory is read again, with the account.
        authority.forget().await;
    }
    ordered
}

/// Places the order. That it replaces a certificate is left out if the authority does not want to hear it: the certificate may
/// be of another account, or replaced already by an order that came to nothing.
async fn place(account: &Account, wanted: &Wanted, replaced: Option<&CertificateDer<'static>>) -> Result<Order, Error> {
    let identifiers = [Identifier::Dns(wanted.name.clone())];
    let mut plain = NewOrder::new(&identifiers);
    if let Some(profile) = &wanted.profile {
        plain = plain.profile(profile);
    }
    let Some(replaced) = replaced.and_then(|replaced| CertificateIdentifier::try_from(replaced).ok()) else {
        return account.new_order(&plain).await;
    };
    let mut renewal = NewOrder::new(&identifiers).replaces(replaced);
    if let Some(profile) = &wanted.profile {
        renewal = renewal.profile(profile);
    }
    match account.new_order(&renewal).await {
        Err(Error::Api(problem)) if [NO_ACCOUNT, RATE_LIMITED].map(Some).contains(&problem.r#type.as_deref()) => {
            Err(Error::Api(problem))
        }
        Err(Error::Api(_) | Error::Unsupported(_)) => account.new_order(&plain).await,
        placed => placed,
    }
}

async fn complete(mut order: Order, wanted: &Wanted, challenge: ChallengeSpec) -> Result<String, OrderFailure> {
    let answers = answer(&mut order, &wanted.authority.store, challenge).await?;
    let status = settle(&mut order, &[OrderStatus::Pending, OrderStatus::Processing]).await;
    if !matches!(status, Ok(OrderStatus::Ready)) {
        abandon(&mut order).await;
    }
    drop(answers);
    match status? {
        OrderStatus::Ready => {}
        // An order of before, as another gateway left it.
        OrderStatus::Valid => {
            return Err(OrderFailure::new(FailureCause::Unreachable, "the order was completed by someone else"));
        }
        _ => return Err(refusal(&mut order).await),
    }
    let key = KeyPair::generate()
        .map_err(|error| OrderFailure::new(FailureCause::Disk, format!("no key can be made: {error}")))?;
    order.finalize_csr(&request(&wanted.name, &key)?).await?;
    match settle(&mut order, &[OrderStatus::Ready, OrderStatus::Processing]).await? {
        OrderStatus::Valid => {}
        _ => return Err(refusal(&mut order).await),
    }
    let chain = order.certificate().await?;
    let chain = chain
        .ok_or_else(|| OrderFailure::new(FailureCause::Unreachable, "there is no certificate in a valid order"))?;
    Ok(format!("{}{chain}", key.serialize_pem()))
}

/// Lays the answers to the challenges out, and says so. They lie there until they are dropped.
async fn answer(
    order: &mut Order,
    store: &CertificateStore,
    challenge: ChallengeSpec,
) -> Result<Vec<TemporaryFile>, OrderFailure> {
    let kind = match challenge {
        ChallengeSpec::Http01 => ChallengeType::Http01,
        ChallengeSpec::TlsAlpn01 => ChallengeType::TlsAlpn01,
    };
    let mut answers = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        // Known to the authority from an order before.
        if authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let name = authorization.identifier().to_string();
        let offered: Vec<_> = authorization.challenges.iter().map(|one| format!("{:?}", one.r#type)).collect();
        let Some(mut challenge) = authorization.challenge(kind.clone()) else {
            let text = format!("the authority does not offer this challenge, but {}", offered.join(", "));
            return Err(OrderFailure::new(FailureCause::Refused, text));
        };
        let file = match kind {
            ChallengeType::Http01 => http_file(&challenge.token),
            _ => tls_file(&name),
        };
        let kept = store.answer(&file, challenge.key_authorization().as_str());
        let unkept =
            |error| OrderFailure::new(FailureCause::Disk, format!("cannot write the answer to a challenge: {error}"));
        answers.push(kept.map_err(unkept)?);
        challenge.set_ready().await?;
    }
    Ok(answers)
}

/// Waits while the order is in one of these states.
async fn settle(order: &mut Order, waits: &[OrderStatus]) -> Result<OrderStatus, OrderFailure> {
    let end = Instant::now() + PATIENCE;
    let mut pause = FIRST;
    loop {
        let status = order.refresh().await?.status;
        if !waits.contains(&status) {
            return Ok(status);
        }
        let asked = transport::retry_after().unwrap_or_default();
        if Instant::now() + asked > end {
            let text = format!("the order is {status:?} and the authority takes longer than {} s", PATIENCE.as_secs());
            return Err(OrderFailure::new(FailureCause::Refused, text));
        }
        sleep(pause.max(asked)).await;
        pause = (pause * 2).min(SLOWEST);
    }
}

/// Why the authority has refused.
async fn refusal(order: &mut Order) -> OrderFailure {
    let mut found = order.state().error.as_ref().map(OrderFailure::of_problem);
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let Ok(state) = authorization.refresh().await else { continue };
        // It says more than the order does.
        let told = state.challenges.iter().find_map(|challenge| challenge.error.as_ref());
        found = told.map(OrderFailure::of_problem).or(found);
    }
    let mut failure = found
        .unwrap_or_else(|| OrderFailure::new(FailureCause::Refused, "the authority has refused, without a reason"));
    failure.after = transport::retry_after();
    failure
}

/// Says that what is still pending is not wanted any more: authorities bound how much there may be of it.
async fn abandon(order: &mut Order) {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let pending = authorization.refresh().await.is_ok_and(|state| state.status == AuthorizationStatus::Pending);
        if pending {
            let _ = authorization.deactivate().await;
        }
    }
}

/// The request to sign.
fn request(name: &str, key: &KeyPair) -> Result<Vec<u8>, OrderFailure> {
    let wrong = |error: rcgen::Error| {
        OrderFailure::new(FailureCause::Refused, format!("no certificate can be requested: {error}"))
    };
    let mut params = CertificateParams::new([name.to_owned()]).map_err(wrong)?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params.serialize_request(key).map_err(wrong)?.der().to_vec())
}
