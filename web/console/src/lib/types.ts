// Shapes of the server's answers under short names. Most come from api-schema.ts, which is generated from the server's own
// description; by hand stands what that does not say well. Not for what the screens make of them.
//
// By hand, and why:
// - words such as 'voice' where the description says "string"; `Told` refuses those that contradict it
// - that null is sent, where the description lets a field be left out too: `Whole` and `Told`
// - all below "Answers that the description calls an object", and Ota, which is the firmware's protocol and not described
import type { components } from './api-schema';

type Schemas = components['schemas'];

/** A shape whose fields the server always sends, though some of them may be null. */
type Whole<Name extends keyof Schemas> = Required<Schemas[Name]>;
/** Such a shape, some fields of which are narrower than they are described. */
type Told<Name extends keyof Schemas, Fields extends Narrower<Schemas[Name], Fields>> = Omit<Whole<Name>, keyof Fields> & Fields;
type Narrower<Shape, Fields> = { [Field in keyof Fields]: Field extends keyof Shape ? Shape[Field] : never };

/** Where the administrator's password comes from: nobody has chosen one, somebody has, or the configuration decides. */
export type PasswordState = 'none' | 'set' | 'configured';
export type Setup = Told<'SetupShown', { password: PasswordState }>;
export type TokenPair = Schemas['TokenPair'];

export type ListedAccount = Schemas['AccountShown'];
export type Accounts = Schemas['AccountsShown'];

/** A call that is made only if the person who was asked says yes. */
export type WaitingCall = Told<'WaitingShown', { kind: TurnKind }>;
export type WaitingCalls = Told<'AllWaiting', { waiting: WaitingCall[] }>;
export type Dropped = Schemas['Dropped'];

export type ChatSession = Whole<'ChatSession'>;
export type ChatSessions = Told<'SessionsBody', { sessions: ChatSession[] }>;
export type ChatMessage = Schemas['Message'];
export type ChatMessages = Whole<'MessagesBody'>;

export type TurnKind = 'voice' | 'text' | 'chat';
export type Span = Whole<'Span'>;
export type Mark = Schemas['TurnEvent'];
interface TurnFields {
  kind: TurnKind; spans: Span[];
  state: 'listening' | 'thinking' | 'speaking' | 'ended';
  outcome: 'answered' | 'interrupted' | 'silent' | 'failed' | 'refused' | null;
}
export type Turn = Told<'TurnJson', TurnFields>;
export type Turns = Told<'LastTurns', { turns: Turn[] }>;

/** What is kept of the turns: nothing, the words, or the words and the sound. */
export type Keep = 'off' | 'text' | 'audio';
export type Voice = keyof Schemas['Sounds'];
export type Sound = Schemas['SoundShown'];
export type KeptTurn = Told<'KeptTurn', TurnFields & { audio: Whole<'Sounds'> }>;
export type KeptTurns = Told<'HistoryPage', { turns: KeptTurn[] }>;
export type HistorySummary = Told<'HistoryShown', { keep: Keep; clients: Told<'ClientShown', { kind: TurnKind }>[] }>;
export type Deleted = Schemas['Deleted'];
export type AgainAnswer = Whole<'TrialAnswered'>;

/** Empty and null mean what is configured, and a language of null that of the person. */
export type Role = Told<'RoleShown', { interruption: 'pause' | 'cut' | null; history: Keep | null }>;
/** What a role says. */
export type RoleFields = Omit<Role, 'id' | 'version' | 'updated'>;
export type Roles = Told<'Roles', { roles: Role[] }>;
export type RoleVersion = Told<'VersionShown', { role: Role }>;
export type RoleVersions = Told<'Versions', { versions: RoleVersion[] }>;
export type RoleTrial = { text: string } & Partial<Pick<RoleFields, 'system_prompt' | 'model' | 'temperature' | 'max_tokens' | 'language'>>;

/** The services of a spoken turn: synthesiser, recogniser, language model. */
export type Service = Schemas['TurnService'];
export type ServiceTest = Whole<'Tested'>;
/** What can be told of what a service was sent, and of what it gave back; really left out where there is none. */
export type CallPart = Schemas['CallContent'];
export type CallFields = { [Field in keyof CallPart]-?: NonNullable<CallPart[Field]> };
export type ServiceCall = Whole<'CallShown'>;
/** Texts are left out where `words` is false. */
export type ServiceCalls = Told<'CallsShown', { calls: ServiceCall[] }>;

/** Most of each measure in a day; 0 is no limit. */
export type UsageLimits = Schemas['LimitsShown'];
/** What is counted and can be limited: money, tokens read and written, seconds of speech heard and said. */
export type Measure = keyof UsageLimits;
export type Sums = Schemas['Sums'];
export type ReachedLimit = Told<'ReachedLimit', { of: 'device' | 'role' | 'total'; limit: Measure }>;
export type UsageDay = Schemas['OfDay'];
export type UsageKind = TurnKind | 'museum' | 'trial';
export type Usage = Told<'UsageShown', { reached: ReachedLimit[]; kinds: Told<'OfKind', { kind: UsageKind }>[] }>;

// Answers that the description calls an object, and no more.

export type ServiceState = 'ready' | 'degraded' | 'down';
export interface Ready {
  status: 'ready' | 'degraded' | 'down' | 'starting' | 'stopping';
  dependencies: Record<string, ServiceState>;
  engines?: Record<string, unknown>;
}

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

export interface Device {
  device_id: string; name: string; board: string; chip: string; serial_number: string; firmware_version: string;
  first_seen: string | null; last_seen: string | null; bound: boolean; agent: string; system_prompt: string;
  connected: boolean; session_id: string | null; role: string | null;
}
export interface Devices { devices: Device[]; next: string | null }
export interface DeviceTools {
  device_id: string; agent: string; off: string[]; sources: { name: string; kind: string; on: boolean }[];
}

export interface Person { id: string; name: string; recordings: number; facts: string[]; role: string | null }
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

/** What of JSON Schema the console reads, of any tool. */
export interface JsonSchema {
  type?: string | string[]; title?: string; description?: string; properties?: Record<string, JsonSchema>; required?: string[];
  enum?: unknown[]; items?: JsonSchema; default?: unknown; minimum?: number; maximum?: number; format?: string;
}

// What is not described at all.

export interface Ota {
  websocket?: { url: string; token?: string; version?: number };
  firmware?: { version: string; url: string };
  activation?: { code: string; message: string; challenge: string; timeout_ms: number };
  server_time?: { timestamp: number; timezone_offset: number };
}
