//! Tokens that somebody forged, and good ones that look odd: none is wrongly let in, none wrongly refused.

use serde_json::{Value, json};

use crate::authentication::scene::{bearer, folder, gateway, send};
use crate::authentication::tokens::{Ec, Ed, Rsa, claims, encode, now, sign_hmac, token, with};
use crate::stage::gateway::Gateway;

/// The issuer's keys, and a stranger's.
struct Keys {
    rsa: Rsa,
    ec: Ec,
    ed: Ed,
    stranger: Rsa,
}

const SECRET: &[u8] = b"a secret of thirty-two bytes ...";

impl Keys {
    fn new() -> Self {
        Keys { rsa: Rsa::of("issuer"), ec: Ec::new(), ed: Ed::new(), stranger: Rsa::of("stranger") }
    }

    fn set(&self) -> Value {
        json!({ "keys": [
            with(self.rsa.jwk(), &json!({ "kid": "rsa", "use": "sig", "alg": "RS256" })),
            with(self.ec.jwk(), &json!({ "kid": "ec", "use": "sig" })),
            with(self.ed.jwk(), &json!({ "kid": "ed", "key_ops": ["verify"] })),
            with(self.stranger.jwk(), &json!({ "kid": "encryption", "use": "enc" })),
            { "kty": "oct", "kid": "secret", "k": encode(SECRET) },
            { "kty": "oct", "kid": "short", "k": encode("secret") },
            { "kty": "unheard-of", "kid": "unheard-of" },
        ]})
    }

    fn signed(&self, claims: &Value) -> String {
        self.signed_text(&claims.to_string())
    }

    fn signed_text(&self, claims: &str) -> String {
        token(r#"{"alg":"RS256","kid":"rsa"}"#, claims, |text| self.rsa.sign(text))
    }

    fn headed(&self, header: &Value) -> String {
        token(&header.to_string(), &claims().to_string(), |text| self.rsa.sign(text))
    }
}

fn start(name: &str, keys: &Keys) -> Gateway {
    std::fs::write(folder(name).join("jwks.json"), keys.set().to_string()).unwrap();
    let config = "
authenticate:
  - jwt: { issuer: 'https://id.example', audience: [shop, books], keys: jwks.json, algorithms: [RS256, ES256, EdDSA] }
endpoints:
  GET /who: { pipeline: [respond: { body: '$claims.sub' }] }
";
    gateway(name, config)
}

/// Claims with one changed, or left out.
fn but(name: &str, value: Value) -> Value {
    let mut claims = claims();
    match value {
        Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
        value => claims[name] = value,
    }
    claims
}

/// The same claims as text, with `more` at the end.
fn and(more: &str) -> String {
    let text = claims().to_string();
    format!("{},{more}}}", &text[..text.len() - 1])
}

#[test]
fn no_forged_token_is_let_in() {
    let keys = Keys::new();
    let gateway = start("forged", &keys);
    let good = keys.signed(&claims());
    assert_eq!(bearer(&gateway, "GET /who", &good).status, 200);
    let [header, payload, signature] = good.split('.').collect::<Vec<_>>().try_into().unwrap();
    let mut forged: Vec<(String, String)> = Vec::new();
    let mut forge = |name: &str, token: String| forged.push((name.to_owned(), token));

    for none in ["none", "None", "NONE", "nOnE", "none ", "", "null"] {
        let header = json!({ "alg": none, "kid": "rsa" }).to_string();
        let bare = format!("{}.{payload}.", encode(&header));
        forge(&format!("alg {none:?} without a signature"), bare.clone());
        forge(&format!("alg {none:?} with the signature of another"), format!("{bare}{signature}"));
    }
    forge("alg null", keys.headed(&json!({ "alg": null, "kid": "rsa" })));
    forge("alg is a list", keys.headed(&json!({ "alg": ["RS256"], "kid": "rsa" })));
    forge("no alg", keys.headed(&json!({ "kid": "rsa" })));
    forge("alg in lower case", keys.headed(&json!({ "alg": "rs256", "kid": "rsa" })));

    // The public key as the secret of an HMAC, in each form that it has.
    let jwk = keys.rsa.jwk();
    let pem = format!("-----BEGIN RSA PUBLIC KEY-----\n{}\n-----END RSA PUBLIC KEY-----\n", encode(keys.rsa.der()));
    let secrets = [
        ("der", keys.rsa.der()),
        ("pem", pem.clone().into_bytes()),
        ("pem without its last line end", pem.trim_end().as_bytes().to_vec()),
        ("n", jwk["n"].as_str().unwrap().as_bytes().to_vec()),
        ("jwk", jwk.to_string().into_bytes()),
        ("nothing", Vec::new()),
    ];
    for (name, secret) in &secrets {
        for kid in [json!({ "alg": "HS256", "kid": "rsa" }), json!({ "alg": "HS256" })] {
            let hs = token(&kid.to_string(), &claims().to_string(), |text| sign_hmac(secret, text));
            forge(&format!("HS256 with the RSA key as secret ({name})"), hs);
        }
    }
    let hs = |kid: &str, secret: &[u8]| {
        token(&json!({ "alg": "HS256", "kid": kid }).to_string(), &claims().to_string(), |text| sign_hmac(secret, text))
    };
    forge("an algorithm that is not accepted, with a good key", hs("secret", SECRET));
    forge("a secret that is too short", hs("short", b"secret"));
    let pss = token(r#"{"alg":"PS256","kid":"rsa"}"#, &claims().to_string(), |text| keys.rsa.sign_pss(text));
    forge("PSS is not accepted", pss);
    forge(
        "PSS called RS256",
        token(r#"{"alg":"RS256","kid":"rsa"}"#, &claims().to_string(), |text| keys.rsa.sign_pss(text)),
    );
    forge(
        "the key of RSA called ES256",
        token(r#"{"alg":"ES256","kid":"rsa"}"#, &claims().to_string(), |text| keys.rsa.sign(text)),
    );
    forge(
        "the key of EC called RS256",
        token(r#"{"alg":"RS256","kid":"ec"}"#, &claims().to_string(), |text| keys.ec.sign(text)),
    );
    forge(
        "zeros as a signature of ES256",
        token(r#"{"alg":"ES256","kid":"ec"}"#, &claims().to_string(), |_| vec![0; 64]),
    );

    // Keys of the token's own choice.
    let by_stranger = |fields: &Value| {
        let header = with(json!({ "alg": "RS256", "kid": "rsa" }), fields);
        token(&header.to_string(), &claims().to_string(), |text| keys.stranger.sign(text))
    };
    let own = keys.stranger.jwk();
    forge("a stranger's signature", by_stranger(&json!({})));
    forge("jwk", by_stranger(&json!({ "jwk": own })));
    forge(
        "jwk without kid",
        token(&json!({ "alg": "RS256", "jwk": own }).to_string(), &claims().to_string(), |text| {
            keys.stranger.sign(text)
        }),
    );
    forge("jku", by_stranger(&json!({ "jku": "http://127.0.0.1:1/jwks" })));
    forge("x5u", by_stranger(&json!({ "x5u": "http://127.0.0.1:1/certificate" })));
    forge("x5c", by_stranger(&json!({ "x5c": ["MIIB"] })));
    for field in ["jwk", "jku", "x5u", "x5c"] {
        forge(
            &format!("{field} beside a good signature"),
            keys.headed(&json!({ "alg": "RS256", "kid": "rsa", field: null })),
        );
    }
    forge("a key for encryption", by_stranger(&json!({ "kid": "encryption" })));
    for kid in [
        json!("unknown"),
        json!("../../jwks.json"),
        json!("' or '1'='1"),
        json!(7),
        json!(null),
        json!(["rsa"]),
        json!(""),
    ] {
        forge(&format!("kid {kid}"), keys.headed(&json!({ "alg": "RS256", "kid": kid })));
    }

    // Extensions.
    for crit in [json!(["exp"]), json!([]), json!("b64"), json!(["b64"]), json!(null), json!(["alg"])] {
        let header = json!({ "alg": "RS256", "kid": "rsa", "crit": crit, "b64": true, "exp": 1 });
        forge(&format!("crit {crit}"), keys.headed(&header));
    }

    // Times.
    let soon = now();
    for exp in [json!(soon - 3600), json!(soon - 30), json!(0), json!(-1), json!(-1e300), json!(soon as f64 - 30.5)] {
        forge(&format!("exp {exp}"), keys.signed(&but("exp", exp)));
    }
    for exp in
        [json!((soon + 3600).to_string()), json!(true), json!([soon + 3600]), json!({}), json!("never"), json!("")]
    {
        forge(&format!("exp {exp}"), keys.signed(&but("exp", exp)));
    }
    forge("exp null", keys.signed_text(&claims().to_string().replace("\"exp\":", "\"exp\":null,\"x\":")));
    forge("no exp", keys.signed(&but("exp", Value::Null)));
    for exp in ["1e999", "NaN", "Infinity", "0x7fffffff", "+9999999999", "09999999999"] {
        forge(
            &format!("exp {exp}"),
            keys.signed_text(&format!(r#"{{"iss":"https://id.example","aud":"shop","exp":{exp}}}"#)),
        );
    }
    for nbf in [json!(soon + 3600), json!(soon + 30), json!(1e300), json!((soon - 3600).to_string()), json!([])] {
        forge(&format!("nbf {nbf}"), keys.signed(&but("nbf", nbf)));
    }

    // For whom, and by whom.
    for aud in [
        json!("shopp"),
        json!("Shop"),
        json!("shop "),
        json!(""),
        json!([]),
        json!(["x"]),
        json!([["shop"]]),
        json!(["shop", 7]),
        json!({ "shop": true }),
        json!(7),
    ] {
        forge(&format!("aud {aud}"), keys.signed(&but("aud", aud)));
    }
    forge("no aud", keys.signed(&but("aud", Value::Null)));
    for iss in [
        json!("https://id.example/"),
        json!("http://id.example"),
        json!("https://id.example.evil"),
        json!(["https://id.example"]),
        json!(""),
    ] {
        forge(&format!("iss {iss}"), keys.signed(&but("iss", iss)));
    }
    forge("no iss", keys.signed(&but("iss", Value::Null)));

    // Names that stand twice.
    forge("exp twice", keys.signed_text(&and(&format!("\"exp\":{}", soon + 9999))));
    forge("aud twice", keys.signed_text(&and(r#""aud":"shop""#)));
    forge("a name twice by an escape", keys.signed_text(&and(r#""\u0061ud":"shop""#)));
    let twice = r#"{"alg":"none","alg":"RS256","kid":"rsa"}"#;
    forge("alg twice", token(twice, &claims().to_string(), |text| keys.rsa.sign(text)));

    // Claims that are no object.
    for text in ["", "null", "[]", "\"ada\"", "7", "{", "{}{}", "{\"exp\":", "\u{feff}{}"] {
        forge(&format!("claims {text:?}"), keys.signed_text(text));
    }
    let nested = format!("{{\"a\":{}1{}}}", "[".repeat(2000), "]".repeat(2000));
    forge("claims that nest deep", keys.signed_text(&nested));
    for text in ["", "null", "[]", "{", "RS256"] {
        forge(&format!("header {text:?}"), token(text, &claims().to_string(), |text| keys.rsa.sign(text)));
    }

    // The form.
    for (name, token) in [
        ("a dot behind", format!("{good}.")),
        ("two dots behind", format!("{good}..")),
        ("a dot before", format!(".{good}")),
        ("two signatures", format!("{good}.{signature}")),
        ("a part between", format!("{header}..{payload}.{signature}")),
        ("no signature", format!("{header}.{payload}.")),
        ("no signature and no dot", format!("{header}.{payload}")),
        ("no payload", format!("{header}..{signature}")),
        ("no header", format!(".{payload}.{signature}")),
        ("dots alone", "..".to_owned()),
        ("a word", "token".to_owned()),
        ("a token twice", format!("{good} {good}")),
        ("a token and a comma", format!("{good},{good}")),
        ("padding behind the signature", format!("{good}==")),
        ("padding behind the header", format!("{header}=.{payload}.{signature}")),
        ("padding behind the payload", format!("{header}.{payload}=.{signature}")),
        ("a space in it", format!("{header}. {payload}.{signature}")),
        ("a line end that is encoded", format!("{header}.{payload}.{signature}%0a")),
        ("quotes", format!("\"{good}\"")),
        ("a signature that is cut", good[..good.len() - 4].to_owned()),
        ("a signature that is longer", format!("{good}AAAA")),
        ("another payload", format!("{header}.{}.{signature}", encode(but("sub", json!("eve")).to_string()))),
        ("another header", format!("{}.{payload}.{signature}", encode(r#"{"alg":"RS256","kid":"rsa","x":1}"#))),
        ("five parts, as an encrypted one has", format!("{header}.{payload}.{signature}.{payload}.{signature}")),
        ("JSON serialization", json!({ "protected": header, "payload": payload, "signature": signature }).to_string()),
    ] {
        forge(name, token);
    }
    // The last character has bits that are not used: with them set it is the same signature, written otherwise.
    let (rest, last) = good.split_at(good.len() - 1);
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let at = alphabet.find(last).unwrap();
    forge("base64 that is not canonical", format!("{rest}{}", &alphabet[at + 1..at + 2]));
    let plus: String = good.replace('-', "+").replace('_', "/");
    if plus != good {
        forge("the other alphabet of base64", plus);
    }
    forge("a huge token", keys.signed(&but("sub", json!("x".repeat(9000)))).repeat(2));

    assert!(forged.len() >= 60, "{}", forged.len());
    let count = forged.len();
    let mut wrong = Vec::new();
    for (name, token) in forged {
        let answer = bearer(&gateway, "GET /who", &token);
        // What is larger than any head is refused as that.
        let refused = answer.status == 401 && answer.head.contains("www-authenticate: Bearer realm=\"api\"");
        let too_large = answer.status == 431 && token.len() > 16_000;
        if !refused && !too_large {
            wrong.push(format!("{name}: {} {}", answer.status, answer.body));
        }
        assert!(!answer.body.contains(signature), "{name}");
    }
    assert_eq!(wrong, Vec::<String>::new());
    println!("{count} forged tokens refused");
    assert_eq!(bearer(&gateway, "GET /who", &good).status, 200);
}

#[test]
fn no_good_token_is_refused() {
    let keys = Keys::new();
    let gateway = start("good", &keys);
    let soon = now();
    let claims = |name: &str, value: Value| but(name, value).to_string();
    let mut good: Vec<(&str, String)> = vec![
        ("as usual", keys.signed(&crate::authentication::tokens::claims())),
        ("the other audience", keys.signed_text(&claims("aud", json!("books")))),
        ("among other audiences", keys.signed_text(&claims("aud", json!(["x", "shop", "y"])))),
        ("audiences all known", keys.signed_text(&claims("aud", json!(["shop", "books"])))),
        ("exp with a fraction", keys.signed_text(&claims("exp", json!(soon as f64 + 60.5)))),
        (
            "exp with an exponent",
            keys.signed_text(r#"{"iss":"https://id.example","aud":"shop","sub":"ada","exp":9.999999e9}"#),
        ),
        ("exp in a million years", keys.signed_text(&claims("exp", json!(31_556_952_000_000_u64)))),
        ("nbf now", keys.signed_text(&claims("nbf", json!(soon)))),
        ("nbf long ago", keys.signed_text(&claims("nbf", json!(-1)))),
        ("a clock that is two seconds off", keys.signed_text(&claims("nbf", json!(soon + 2)))),
        ("expired two seconds ago", keys.signed_text(&claims("exp", json!(soon - 2)))),
        ("spaces in the claims", keys.signed_text(&format!(" {} \n", crate::authentication::tokens::claims()))),
        ("unknown claims", keys.signed_text(&and(r#""x":{"y":[1,null,"é😀"]},"jku":"a","crit":["b"]"#))),
        ("the same name in two objects", keys.signed_text(&and(r#""a":{"n":1},"b":{"n":1}"#))),
        ("no kid", keys.headed(&json!({ "alg": "RS256" }))),
        ("typ", keys.headed(&json!({ "alg": "RS256", "kid": "rsa", "typ": "at+jwt" }))),
        ("x5t", keys.headed(&json!({ "alg": "RS256", "kid": "rsa", "x5t": "x", "cty": "y", "other": 1 }))),
        (
            "spaces in the header",
            token(" { \"alg\" : \"RS256\" } ", &crate::authentication::tokens::claims().to_string(), |text| {
                keys.rsa.sign(text)
            }),
        ),
        ("large", keys.signed_text(&and(&format!("\"x\":\"{}\"", "y".repeat(6000))))),
    ];
    let text = crate::authentication::tokens::claims().to_string();
    good.push(("ES256", token(r#"{"alg":"ES256","kid":"ec"}"#, &text, |text| keys.ec.sign(text))));
    good.push(("ES256 without kid", token(r#"{"alg":"ES256"}"#, &text, |text| keys.ec.sign(text))));
    good.push(("EdDSA", token(r#"{"alg":"EdDSA","kid":"ed"}"#, &text, |text| keys.ed.sign(text))));
    for (name, token) in &good {
        // The second time it is remembered.
        for _ in 0..2 {
            let answer = bearer(&gateway, "GET /who", token);
            assert_eq!((answer.status, &*answer.body), (200, "\"ada\""), "{name}");
        }
        for scheme in ["bearer", "BEARER", "Bearer "] {
            let answer = send(&gateway, "GET /who", &[format!("Authorization: {scheme} {token}")]);
            assert_eq!(answer.status, 200, "{name} {scheme}");
        }
    }
}

#[test]
fn a_token_that_is_not_alone_is_refused() {
    let keys = Keys::new();
    let gateway = start("alone", &keys);
    let good = keys.signed(&claims());
    let twice = [format!("authorization: Bearer {good}"), format!("authorization: Bearer {good}")];
    assert_eq!(send(&gateway, "GET /who", &twice).status, 401);
    let basic = [format!("authorization: Basic {}", encode("a:b")), format!("authorization: Bearer {good}")];
    assert_eq!(send(&gateway, "GET /who", &basic).status, 401);
    assert_eq!(send(&gateway, &format!("GET /who?access_token={good}"), &[]).status, 401);
    let none = send(&gateway, "GET /who", &[]);
    assert!(none.head.contains("www-authenticate: Bearer realm=\"api\"\r\n"), "{}", none.head);
    let expired = keys.signed(&but("exp", json!(1)));
    let told = bearer(&gateway, "GET /who", &expired);
    let challenge =
        "www-authenticate: Bearer realm=\"api\", error=\"invalid_token\", error_description=\"the token has expired\"";
    assert!(told.head.contains(challenge), "{}", told.head);
}
