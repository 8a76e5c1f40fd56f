//! Routes by path: each path serves its methods, and HEAD if it serves GET; other methods are
//! refused. Not for the handlers.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{ALLOW, HeaderValue, UPGRADE};
use actix_web::http::{ConnectionType, Method, StatusCode, Version};
use actix_web::middleware::Next;
use actix_web::web::{self, ServiceConfig};
use actix_web::{Error, FromRequest, Handler, HttpRequest, HttpResponse, Responder, Route};
use bytes::Bytes;
use hearken_proto::fault::Fault;

use super::fault::answer;
use super::paths::{OPENAPI, is_docs, routed};

/// Routes by path, in matching order.
#[derive(Default)]
pub(super) struct RouteTable(Vec<(String, Vec<(Method, Route)>)>);

macro_rules! methods {
    ($($name:ident $method:ident),*) => {$(
        /// Adds the handler of this method of a path.
        pub(super) fn $name<F, Args>(self, path: &str, handler: F) -> Self
        where
            F: Handler<Args>,
            Args: FromRequest + 'static,
            F::Output: Responder + 'static,
        {
            self.add(Method::$method, path, web::$name().to(handler))
        }
    )*};
}

impl RouteTable {
    methods!(get GET, post POST, put PUT, patch PATCH, delete DELETE);

    fn add(mut self, method: Method, path: &str, route: Route) -> Self {
        match self.0.iter_mut().find(|(known, _)| known == path) {
            Some((_, routes)) => routes.push((method, route)),
            None => self.0.push((path.to_owned(), vec![(method, route)])),
        }
        self
    }

    /// Adds the routes to an application.
    pub(super) fn register(self, services: &mut ServiceConfig) {
        for (path, routes) in self.0 {
            let methods: Vec<Method> = routes.iter().map(|(method, _)| method.clone()).collect();
            let refused = move |request: HttpRequest| {
                let refused = not_allowed(&request, &methods);
                async move { refused }
            };
            let resource = web::resource(path).default_service(web::to(refused));
            let resource = routes.into_iter().fold(resource, |all, (_, route)| all.route(route));
            services.service(resource);
        }
    }
}

/// Builds the response to a method that a path does not have.
fn not_allowed(request: &HttpRequest, methods: &[Method]) -> HttpResponse {
    let names: Vec<&str> = methods.iter().map(Method::as_str).collect();
    let about = format!("{} is not allowed here, use {}", request.method(), names.join(" or "));
    let mut refused = answer(Fault::BadRequest, &about);
    *refused.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    let head = names.contains(&"GET").then_some("HEAD");
    let allowed: Vec<&str> = names.into_iter().chain(head).collect();
    // Never fails: names of methods are tokens.
    let allowed = HeaderValue::from_str(&allowed.join(", "));
    refused.headers_mut().insert(ALLOW, allowed.unwrap_or(HeaderValue::from_static("GET")));
    refused
}

/// Answers HEAD like GET, without the body; and clients of HTTP/1.0 without chunks, which they do not support.
pub(super) async fn head_and_old_clients(
    mut request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    // These pages are not in the table.
    let is_page = routed(request.request()) == OPENAPI || is_docs(request.request());
    if is_page && !matches!(*request.method(), Method::GET | Method::HEAD) {
        let refused = not_allowed(request.request(), &[Method::GET]);
        return Ok(request.into_response(refused));
    }
    let is_head = request.method() == Method::HEAD;
    if is_head {
        request.head_mut().method = Method::GET;
        // A handshake is GET: HEAD opens no WebSocket.
        request.headers_mut().remove(UPGRADE);
    }
    let is_old = request.version() < Version::HTTP_11;
    let mut response = next.call(request).await?;
    if is_old && response.response().body().size() == BodySize::Stream {
        let head = response.response_mut().head_mut();
        head.no_chunking(true);
        // The end of the connection is the end of the body.
        head.set_connection_type(ConnectionType::Close);
    }
    if is_head {
        return Ok(response.map_body(|_, body| BoxBody::new(Unsent(body.size()))));
    }
    Ok(response)
}

/// Body of a response to HEAD: only its size.
struct Unsent(BodySize);

impl MessageBody for Unsent {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        self.0
    }

    fn poll_next(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Poll::Ready(None)
    }
}
