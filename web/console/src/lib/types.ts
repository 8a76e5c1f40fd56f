// Shapes of the server's answers, as src/http writes them. Not for what the screens make of them.
import type { Account } from './rights';

export type ServiceState = 'ready' | 'degraded' | 'down';
export interface Ready {
  status: 'ready' | 'degraded' | 'down' | 'starting' | 'stopping';
  dependencies: Record<string, ServiceState>;
  engines?: Record<string, unknown>;
}

/** Where the administrator's password comes from: nobody has chosen one, somebody has, or the configuration decides. */
export type PasswordState = 'none' | 'set' | 'configured';

export interface Took { max: number; mean: number; p50: number; p90: number; p99: number }
export interface AdminMetrics {
  devices: number;
  text_clients: number;
  museum_sessions: number;
  http?: { requests: number; errors: number; refusals: number; error_rate: number; took_ms: Took };
  llm?: Record<string, unknown>;
}

export interface Settings {
  settings: Record<string, Record<string, unknown>>;
  sources: Record<string, 'environment' | 'run_time' | 'configuration'>;
}

export interface MuseumSession {
  id: string; kind: string; functions: number; messages: number; requests: number;
  created_at: string; last_used_at: string; expires_at: string; client_metadata: unknown;
}
export interface MuseumSessions { sessions: MuseumSession[]; total: number; offset: number; limit: number }
export interface AuditEntry { number: number; at: string; who: string; what: string; details: Record<string, unknown> }
export interface Audit { entries: AuditEntry[]; next: number | null }

export interface ListedAccount extends Account { created: string }

export interface Device {
  device_id: string; name: string; board: string; chip: string; serial_number: string; firmware_version: string;
  first_seen: string | null; last_seen: string | null; bound: boolean; agent: string; system_prompt: string;
  connected: boolean; session_id: string | null; role?: string | null;
}
export interface Devices { devices: Device[]; next: string | null }
export interface DeviceTools {
  device_id: string; agent: string; off: string[]; sources: { name: string; kind: string; on: boolean }[];
}

export interface Person { id: string; name: string; recordings: number; facts: string[]; role?: string | null }
export interface PersonDetail extends Person { exchanges: { said: string; answered: string }[] }

export interface Tool { name: string; description: string; parameters: JsonSchema; destructive: boolean; changed: boolean }
export interface SourceReport {
  name: string; kind: string; origin: 'configuration' | 'api' | 'endpoint' | 'builtin'; devices: string[];
  state: 'connecting' | 'ready' | 'failed' | 'disabled'; reason?: string; protocol: string; connections: number;
  usage: { calls: number; bytes_sent: number; bytes_received: number; seconds: number } | null; tools: Tool[];
}
export interface ToolServer extends SourceReport { enabled: boolean; settings: Record<string, unknown> }
export interface ToolServerSettings {
  name: string; protocol?: 'mcp' | 'litemcp'; url?: string; command?: string; args?: string[]; bearer?: string;
  devices?: string[]; timeout_ms?: number;
}
export type ToolContent = { type: 'text'; text: string } | { type: 'image'; mime_type: string; base64: string };
export interface ToolResult { failed: boolean; content: ToolContent[] }
/** A call that is made only if the person who was asked says yes. */
export interface WaitingCall {
  kind: Turn['kind']; client: string; name: string; tool: string; source: string; arguments: string; question: string;
  seconds_left: number;
}

export interface JsonSchema {
  type?: string | string[]; title?: string; description?: string; properties?: Record<string, JsonSchema>; required?: string[];
  enum?: unknown[]; items?: JsonSchema; default?: unknown; minimum?: number; maximum?: number; format?: string;
}

export interface ChatSession {
  id: string; name: string; creator_id: string; status: 'active' | 'archived' | 'deleted'; players: string[];
  message_count: number; created_at: string; updated_at: string; last_access_at: string;
}
export interface ChatSessions { sessions: ChatSession[]; total: number }
export interface ChatMessage {
  role: 'system' | 'user' | 'assistant' | 'tool'; content: string; player_id?: string; timestamp: string;
  tool_calls?: { function: { name: string; arguments: string } }[];
}
export interface ChatMessages { messages: ChatMessage[]; total: number; first: number | null }

export interface Span { name: string; detail: string | null; start_ms: number; end_ms: number | null }
export interface Mark { name: string; at_ms: number }
export interface Turn {
  id: string; trace_id: string | null; kind: 'voice' | 'text' | 'chat'; client: string; began: string;
  state: 'listening' | 'thinking' | 'speaking' | 'ended';
  outcome: 'answered' | 'interrupted' | 'silent' | 'failed' | 'refused' | null;
  heard: string | null; said: string | null; wait_ms: number | null; spans: Span[]; events: Mark[];
}

/** What is kept of the turns: nothing, the words, or the words and the sound. */
export type Keep = 'off' | 'text' | 'audio';
export type Voice = 'heard' | 'said';
export interface Sound { start_ms: number; length_ms: number }
export interface KeptTurn extends Turn { audio: Record<Voice, Sound | null> | null }
export interface KeptTurns { turns: KeptTurn[]; next: number | null }
export interface HistorySummary {
  keep: Keep; retention_days: number; turns: number; audio_bytes: number; oldest: string | null;
  clients: { client: string; kind: Turn['kind']; turns: number; last: string }[];
}
export interface AgainAnswer { answer: string; first_word_ms: number | null; total_ms: number; model: string | null }

/**
 * What a role says; empty and null mean what is configured, a language of null that of the person, and a daily limit of null
 * none of its own.
 */
export interface RoleFields {
  name: string; system_prompt: string; model: string; temperature: number | null; max_tokens: number | null; voice: string;
  language: string | null; tools_off: string[]; interruption: 'pause' | 'cut' | null; memory: boolean; history: Keep | null;
  daily_tokens: number | null; daily_seconds: number | null; daily_cost: number | null;
}
export interface Role extends RoleFields { id: string; version: number; updated: string }
export interface Roles { roles: Role[]; languages: string[] }
export interface RoleVersion { version: number; at: string; role: Role }
export type RoleTrial = { text: string } & Partial<Pick<RoleFields, 'system_prompt' | 'model' | 'temperature' | 'max_tokens' | 'language'>>;

/** The services of a spoken turn: synthesiser, recogniser, language model. */
export type Service = 'tts' | 'asr' | 'llm';
export interface ServiceTest {
  service: Service; ok: boolean; first_ms: number | null; total_ms: number; text: string | null; audio: string | null;
  error: string | null;
}

/** What can be told of what a service was sent, and of what it gave back. */
export interface CallFields {
  text: string; model: string; voice: string; messages: number; tools: number; max_tokens: number; temperature: number;
  characters: number; audio_ms: number; calls: string[]; prompt_tokens: number; completion_tokens: number;
}
export type CallPart = { [Field in keyof CallFields]?: CallFields[Field] | null };
export interface ServiceCall {
  number: number; service: Service; began: string; first_ms: number | null; total_ms: number | null;
  outcome: 'answered' | 'failed' | 'cancelled' | 'running'; error: string | null; sent: CallPart | null; got: CallPart | null;
}
/** Texts are left out where `words` is false. */
export interface ServiceCalls { words: boolean; calls: ServiceCall[] }

/** What is counted and can be limited: money, tokens read and written, seconds of speech heard and said. */
export type Measure = 'cost' | 'tokens' | 'seconds';
export interface Sums {
  turns: number; refused: number; prompt_tokens: number; completion_tokens: number; heard_seconds: number; said_seconds: number;
  said_chars: number; cost: number;
}
/** Most of each measure in a day; 0 is no limit. */
export type UsageLimits = Record<Measure, number>;
export interface ReachedLimit { of: 'device' | 'role' | 'total'; id: string; limit: Measure }
export interface UsageDay extends Sums { day: string }
export type UsageKind = Turn['kind'] | 'museum';
export interface Usage {
  today: string; from: string; currency: string; limits: Record<'device' | 'total', UsageLimits>; used_today: Sums;
  reached: ReachedLimit[]; days: UsageDay[]; devices: (Sums & { client: string; name: string })[];
  roles: (Sums & { role_id: string; name: string })[]; kinds: (Sums & { kind: UsageKind })[];
}

export interface Ota {
  websocket?: { url: string; token?: string; version?: number };
  firmware?: { version: string; url: string };
  activation?: { code: string; message: string; challenge: string; timeout_ms: number };
  server_time?: { timestamp: number; timezone_offset: number };
}
