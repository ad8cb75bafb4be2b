//! The whole life of a request, from its head to its answer.

use std::ops::Deref;
use std::sync::Arc;

use crocodile_pear::unstable::config::spec::Timeout;
use crocodile_pear::unstable::error::Error;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::request::context::Scope;
use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Method, Response, Version};

use crate::gateway::Gateway;
use crate::gateway::host_routes::{AUTHENTICATE, HostRoutes, RouteTarget, answer_locally, is_preflight_for_other};
use crate::http::response;
use crate::http::route::FoundRoute;
use crate::layer::stack::LayerPass;
use crate::layer::unshared::Unshared;
use crate::server::{ClientRequest, Connection, Redirect, Refusal, Reply, grpc};

/// The layers that need to know who a client is.
const FOR_KNOWN: [&str; 4] = [AUTHENTICATE, "consumer_limit", "quota", "allow"];

impl Gateway {
    /// Serves a request from beginning to end. `gateway` is kept alive meanwhile.
    pub fn handle(
        gateway: impl Deref<Target = Arc<Gateway>> + Send,
        request: ClientRequest,
    ) -> impl Future<Output = Reply> + Send {
        // Made before the future, which would otherwise hold the whole request until its end. On the heap at once, because
        // it is large and passed on often.
        let mut client = request.connection.client(request.version);
        let redirect = request.connection.listener.redirect.clone();
        let challenge = request.connection.listener.challenges.answer(request.target.path());
        let mut scope = Scope::new(request.method, Some(request.target), request.headers, request.body);
        let trusted = gateway.trust.trusts(client.address);
        if trusted {
            gateway.trust.resolve(&mut client, scope.headers());
        }
        scope.facts_mut().set_client(client);
        if let Some(traces) = &gateway.traces {
            let trace = traces.follow(&scope, trusted);
            scope.keep_trace(trace);
        } else if gateway.records {
            scope.keep_record();
        }
        if request.version == Version::HTTP_2
            && let Some(timeout) = grpc::timeout(scope.headers())
        {
            scope.set_timeout(Timeout::After(timeout));
        }
        scope.set_pace(request.pace);
        scope.set_passage(request.side_channel);
        let upgrade = request.upgrade;
        let mut scope = Unshared::new(scope);
        async move {
            // Before any check that could refuse the request: a certificate authority has no credentials, and may use
            // any address.
            if let Some(answer) = challenge {
                return response::challenge(answer).into();
            }
            if let Some(redirect) = redirect {
                return gateway.redirect(scope, &redirect);
            }
            let site = gateway.hosts.find(|| scope.host());
            // Both are rare: requests from another gateway, and requests about the server.
            if (scope.forwarded() || *scope.method() == Method::OPTIONS)
                && let Some(response) = answer_locally(&scope, site)
            {
                return Box::pin(gateway.finish_response(scope, response)).await;
            }
            let found = site.map(|site| site.find(&scope));
            match found.unwrap_or(Ok(FoundRoute::Nothing)) {
                Ok(FoundRoute::Endpoint(RouteTarget { endpoint, .. }, params))
                    if !is_preflight_for_other(site, &scope, endpoint) =>
                {
                    endpoint.receive(&mut scope, params, upgrade);
                    endpoint.serve(scope).await
                }
                // Boxed: this case is rare, and its size would be added to every request's future.
                other => Box::pin(gateway.reject(scope, site, other)).await,
            }
        }
    }

    /// Sends an answer that the gateway made itself.
    async fn finish_response(&self, scope: Unshared<Scope>, response: Response<AnswerBody>) -> Reply {
        let (pass, refused) = LayerPass::enter(&self.unserved, scope).await;
        pass.finish_response(refused.unwrap_or(response)).await
    }

    /// Answers a request that no endpoint serves.
    async fn reject(
        &self,
        scope: Unshared<Scope>,
        site: Option<&HostRoutes>,
        found: Result<FoundRoute<'_, RouteTarget>, Error>,
    ) -> Reply {
        let unserved = site.map_or(&self.unserved, |site| &site.unserved);
        let asked = site.and_then(|site| site.asked_about(&scope, &found).or_else(|| site.purged(&scope)));
        let open = site.filter(|site| site.is_open(&scope, &found)).map(|_| Arc::new(unserved.without(&FOR_KNOWN)));
        let unserved = open.as_ref().unwrap_or(unserved);
        let other =
            site.filter(|_| matches!(found, Ok(FoundRoute::Nothing))).and_then(|site| site.other_version(&scope));
        let layers = asked.map_or(unserved, |endpoint| &endpoint.layers);
        let (pass, refused) = LayerPass::enter(layers, scope).await;
        let response = match (refused.or(other), found) {
            (Some(response), _) => response,
            (None, Ok(FoundRoute::Methods(methods))) => response::other_method(pass.scope().method(), &methods),
            (None, Ok(_)) if site.is_none() => response::other_host(),
            (None, Ok(_)) => response::not_found(),
            (None, Err(error)) => response::fail(&error),
        };
        pass.finish_response(response).await
    }

    /// Redirects a request to `https`. The request passes no layer on its way in, because layers could ask for
    /// credentials, and the client must not send those in clear text.
    fn redirect(&self, scope: Unshared<Scope>, redirect: &Redirect) -> Reply {
        let host = scope.headers().get(HOST).and_then(|host| host.to_str().ok());
        let target = redirect.location(host, scope.target());
        LayerPass::refuse(&self.unserved, scope, || response::redirect(target.as_deref()))
    }

    /// Answers a request that could not be read.
    pub fn refuse(&self, refusal: Refusal, origin: Option<HeaderValue>, connection: &Connection) -> Reply {
        let headers: HeaderMap = origin.map(|origin| (ORIGIN, origin)).into_iter().collect();
        let mut scope = Scope::new(Method::GET, None, headers, AnswerBody::empty());
        scope.facts_mut().set_client(connection.client(connection.version));
        LayerPass::refuse(&self.unserved, Unshared::new(scope), || response::refusal(&refusal))
    }
}
