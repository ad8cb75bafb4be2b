//! A language model's API, whose model repeats what it is told. It counts words as tokens.

use bytes::Bytes;
use futures_util::stream;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::reply::{self, Reply};

/// The largest request.
const MOST: usize = 1 << 20;

/// `POST /v1/chat/completions`, whole or as a stream.
pub async fn complete(request: Request<Incoming>) -> Reply {
    if request.method() != Method::POST {
        return reply::problem(StatusCode::METHOD_NOT_ALLOWED, "messages are posted here");
    }
    if !request.headers().contains_key("authorization") {
        return reply::problem(StatusCode::UNAUTHORIZED, "the model has a key");
    }
    let Ok(body) = Limited::new(request.into_body(), MOST).collect().await else {
        return reply::problem(StatusCode::PAYLOAD_TOO_LARGE, "this is too much for one request");
    };
    let Ok(asked) = serde_json::from_slice::<Value>(&body.to_bytes()) else {
        return reply::problem(StatusCode::BAD_REQUEST, "the body is not JSON");
    };
    let messages = asked["messages"].as_array().cloned().unwrap_or_default();
    let texts: Vec<&str> = messages.iter().filter_map(|message| message["content"].as_str()).collect();
    let prompt = texts.iter().map(|text| words(text).count()).sum::<usize>();
    let said = format!("You said: {}", texts.last().unwrap_or(&"nothing"));
    let completion = words(&said).count();
    let usage = json!({
        "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
    });
    if asked["stream"] != true {
        let message = json!({"role": "assistant", "content": said});
        let answer = json!({"model": "demo", "choices": [{"index": 0, "message": message}], "usage": usage});
        return reply::json(answer.to_string());
    }
    let piece = |word: &str| json!({"choices": [{"index": 0, "delta": {"content": format!("{word} ")}}]});
    let mut events: Vec<String> = words(&said).map(|word| piece(word).to_string()).collect();
    if asked["stream_options"]["include_usage"] == true {
        events.push(json!({"choices": [], "usage": usage}).to_string());
    }
    events.push("[DONE]".to_owned());
    let events = events.into_iter().map(|event| Bytes::from(format!("data: {event}\n\n")));
    reply::stream("text/event-stream", stream::iter(events))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
}
