//! rmcp transport over a device's socket: MCP messages travel in `mcp` frames. Not for the content
//! of the messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use actix::Recipient;
use actix::dev::SendError;
use hearken_base::memory_pool::Reserved;
use hearken_base::paced_log::PacedLog;
use hearken_proto::device::Downlink;
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, JsonRpcMessage, RequestId,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};

use super::repair::{self, Extras};
use crate::messages::DeviceOrder;

/// Capacity of the queue of messages from a device. When it is full, the newest is dropped.
pub const INBOUND: usize = 32;

/// Maximum number of pending requests that are tracked.
const MAX_WAITING: usize = 64;

/// Error: the socket did not accept a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The connection has ended.
    #[error("the device is disconnected")]
    Gone,
    /// The connection has not executed earlier orders yet.
    #[error("the device has too many orders waiting")]
    Busy,
}

/// Receiver of the messages since the device's hello. Links read it one after the other.
pub type Inbound = Arc<Mutex<mpsc::Receiver<Reserved<Value>>>>;

/// Link to a device's MCP server.
pub struct DeviceLink {
    device: Recipient<DeviceOrder>,
    inbound: Inbound,
    /// Next id of the connection. rmcp counts its ids from zero, and they are offset from here.
    next_id: Arc<AtomicI64>,
    base: i64,
    extras: Extras,
    /// Message that the device sent before the link existed.
    first: Option<Reserved<Value>>,
    /// Messages of a batch, the last first.
    read: Vec<RxJsonRpcMessage<RoleClient>>,
    /// Ids of pending requests, as rmcp counts them.
    waiting: Vec<i64>,
    warnings: PacedLog,
}

impl DeviceLink {
    /// Creates a link that sends to `device` and reads `inbound`. `next_id` belongs to the
    /// connection.
    pub fn new(
        device: Recipient<DeviceOrder>,
        inbound: Inbound,
        next_id: Arc<AtomicI64>,
        extras: Extras,
    ) -> Self {
        let base = next_id.load(Ordering::Relaxed);
        Self {
            device,
            inbound,
            next_id,
            base,
            extras,
            first: None,
            read: Vec::new(),
            waiting: Vec::new(),
            warnings: PacedLog::default(),
        }
    }

    /// Returns the link with a first message, which it reads before all others.
    #[must_use]
    pub fn with_first_message(self, first: Option<Reserved<Value>>) -> Self {
        Self { first, ..self }
    }

    /// Sends a request without waiting for its answer. Only for a link that is not otherwise in
    /// use.
    ///
    /// # Errors
    /// Returns an error if the socket did not accept the request.
    pub fn send_request(&self, request: ClientRequest) -> Result<(), LinkError> {
        self.send_message(&ClientJsonRpcMessage::request(request, RequestId::Number(0)))
    }

    fn send_message(&self, message: &TxJsonRpcMessage<RoleClient>) -> Result<(), LinkError> {
        let message = serde_json::to_value(message).unwrap_or_default();
        let payload = repair::outgoing(message, self.base, &self.extras);
        if let Some(id) = payload["id"].as_i64() {
            self.next_id.fetch_max(id + 1, Ordering::Relaxed);
        }
        self.device.try_send(DeviceOrder::Send(Downlink::Mcp { payload })).map_err(|e| match e {
            SendError::Full(_) => LinkError::Busy,
            SendError::Closed(_) => LinkError::Gone,
        })
    }
}

impl DeviceLink {
    /// Tracks pending requests.
    fn note(&mut self, sent: &TxJsonRpcMessage<RoleClient>) {
        match sent {
            JsonRpcMessage::Request(request) => {
                if let RequestId::Number(id) = request.id {
                    if self.waiting.len() == MAX_WAITING {
                        self.waiting.remove(0);
                    }
                    self.waiting.push(id);
                }
            }
            JsonRpcMessage::Notification(sent) => {
                if let ClientNotification::CancelledNotification(cancelled) = &sent.notification {
                    self.forget(cancelled.params.request_id.as_ref());
                }
            }
            _ => {}
        }
    }

    fn forget(&mut self, answered: Option<&RequestId>) {
        self.waiting.retain(|id| answered != Some(&RequestId::Number(*id)));
    }

    /// Reads one message. An answer without an id counts as the answer to the only pending request.
    fn read_one(&mut self, mut message: Value) -> Option<RxJsonRpcMessage<RoleClient>> {
        if let [only] = self.waiting[..]
            && repair::is_unaddressed(&message)
            && let Some(fields) = message.as_object_mut()
        {
            fields.insert("id".into(), self.base.saturating_add(only).into());
        }
        let read = read(message, self.base, &self.warnings);
        match &read {
            Some(JsonRpcMessage::Response(answer)) => self.forget(Some(&answer.id)),
            Some(JsonRpcMessage::Error(error)) => self.forget(error.id.as_ref()),
            Some(_) => {}
            None => tracing::debug!("dropped an MCP message of the device: it answers no request"),
        }
        read
    }
}

/// Parses a device's message for rmcp. `None` if it answers no request since `base`.
pub(super) fn read(
    message: Value,
    base: i64,
    warnings: &PacedLog,
) -> Option<RxJsonRpcMessage<RoleClient>> {
    let repaired = repair::incoming(message, base)?;
    let id = repaired["id"].as_i64().filter(|_| repaired.get("method").is_none());
    // Parsed from text: rmcp's untagged enums cannot represent whole numbers beyond 2^64 that are
    // already `Value`s.
    match serde_json::from_str(&repaired.to_string()) {
        Ok(message) => Some(message),
        Err(error) => {
            warnings.log(|left_out| {
                tracing::warn!(%error, left_out, "cannot read an MCP message of the device");
            });
            let error = json!({"message": "the device's answer cannot be read"});
            serde_json::from_value(repair::error_reply(id?, &error)).ok()
        }
    }
}

impl Transport<RoleClient> for DeviceLink {
    type Error = LinkError;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), LinkError>> + Send + 'static {
        self.note(&message);
        std::future::ready(self.send_message(&message))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.read.pop() {
                return Some(message);
            }
            let payload = match self.first.take() {
                Some(message) => message,
                None => self.inbound.lock().await.recv().await?,
            };
            let (payload, _weight) = payload.into_parts();
            let messages = repair::messages(payload).into_iter();
            self.read = messages.filter_map(|message| self.read_one(message)).collect();
            self.read.reverse();
        }
    }

    async fn close(&mut self) -> Result<(), LinkError> {
        // Messages that arrive meanwhile wait for the next link.
        Ok(())
    }
}
