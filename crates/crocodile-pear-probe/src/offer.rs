//! Which versions of HTTP and TLS a server offers: every way is tried once, side by side.

use futures_util::future::join_all;
use http::StatusCode;

use crate::link::{Dial, Got};
use crate::target::{Scheme, Target};
use crate::trouble::{Trouble, TroubleCause};
use crate::trust::{ProbeTls, TlsFiles, Verify};
use crate::way::ProtocolStack;

/// The result of one way.
pub struct Offer {
    pub way: ProtocolStack,
    pub answer: Result<Got, Trouble>,
}

/// Tries every way.
///
/// # Errors
/// No way works; the error is the one that says most about the cause.
pub async fn discover(dial: &Dial) -> Result<Vec<Offer>, Trouble> {
    let offers = attempt(dial).await;
    if let Some(trouble) = astray(dial, &offers).await {
        return Err(trouble);
    }
    if offers.iter().any(|offer| offer.answer.is_ok()) {
        return Ok(offers);
    }
    // Among several that weigh the same, the oldest version counts: it is the least that could be expected.
    let troubles = offers.into_iter().rev().filter_map(|offer| offer.answer.err());
    let worst = troubles.max_by_key(|trouble| trouble.cause);
    Err(worst.unwrap_or_else(|| Trouble::new(TroubleCause::Unreachable, "nothing was tried")))
}

async fn attempt(dial: &Dial) -> Vec<Offer> {
    let attempts = ProtocolStack::all(dial.target.scheme).into_iter().map(async |way| {
        let answer = once(dial, way).await;
        Offer { way, answer }
    });
    join_all(attempts).await
}

async fn once(dial: &Dial, way: ProtocolStack) -> Result<Got, Trouble> {
    let got = dial.open(way).await?.get(dial).await?;
    match got.status {
        StatusCode::UPGRADE_REQUIRED | StatusCode::HTTP_VERSION_NOT_SUPPORTED => {
            let what = format!("the upstream answers {} with {}", way.http.label(), got.status.as_u16());
            Err(Trouble::new(TroubleCause::Foreign, what))
        }
        _ => Ok(got),
    }
}

/// The server speaks TLS where the URL says `http`, or the other way round.
async fn astray(dial: &Dial, offers: &[Offer]) -> Option<Trouble> {
    let cause = |offer: &Offer| offer.answer.as_ref().err().map(|trouble| trouble.cause);
    let suspicious = match dial.target.scheme {
        // Some servers say 400 in plain text where TLS is spoken.
        Scheme::Http => offers.iter().all(|offer| match &offer.answer {
            Ok(got) => got.status == StatusCode::BAD_REQUEST,
            Err(trouble) => trouble.cause < TroubleCause::Silent,
        }),
        Scheme::Https => offers.iter().all(|offer| {
            matches!(cause(offer), Some(TroubleCause::NotTls | TroubleCause::Ended | TroubleCause::Silent))
        }),
    };
    if !suspicious {
        return None;
    }
    let other = dial.target.scheme.other();
    let target = Target { scheme: other, ..dial.target.clone() };
    let trust = ProbeTls::new(&target.host, &TlsFiles::default(), Verify::Not).ok().filter(|_| other == Scheme::Https);
    let elsewhere = Dial { target, trust, headers: dial.headers.clone(), ..*dial };
    let spoken = attempt(&elsewhere).await.into_iter().any(|offer| match (other, offer.answer) {
        (Scheme::Http, answer) => answer.is_ok(),
        (Scheme::Https, Ok(_)) => true,
        // The server has understood the handshake.
        (Scheme::Https, Err(trouble)) => matches!(trouble.cause, TroubleCause::Refused | TroubleCause::Foreign),
    });
    let what = match other {
        Scheme::Https => "the upstream speaks TLS at this port, and the URL says http",
        Scheme::Http => "the upstream speaks plain HTTP at this port, and the URL says https",
    };
    spoken.then(|| Trouble::new(TroubleCause::NotTls, what).remedy(format!("write {}", elsewhere.target.url())))
}
