// Shapes of the server's answers under short names. They come from api-schema.ts, which is generated from the server's own
// description. Not for what the screens make of them.
//
// By hand, and why:
// - JsonSchema, and the tools that have one: the description says "object" of it, since any JSON Schema may stand there
// - Ota, which is the firmware's protocol and not described
import type { components } from './api-schema';

type Schemas = components['schemas'];

/** Where the administrator's password comes from: nobody has chosen one, somebody has, or the configuration decides. */
export type PasswordState = Schemas['PasswordState'];
export type Setup = Schemas['SetupShown'];
export type TokenPair = Schemas['TokenPair'];

export type ListedAccount = Schemas['AccountShown'];
export type Accounts = Schemas['AccountsShown'];

/** A call that is made only if the person who was asked says yes. */
export type WaitingCall = Schemas['WaitingShown'];
export type WaitingCalls = Schemas['AllWaiting'];
export type Dropped = Schemas['Dropped'];

export type ChatSession = Schemas['ChatSession'];
export type ChatSessions = Schemas['SessionsBody'];
export type ChatMessage = Schemas['Message'];
export type ChatMessages = Schemas['MessagesBody'];

export type TurnKind = Schemas['TurnKind'];
export type Span = Schemas['Span'];
export type Mark = Schemas['TurnEvent'];
export type Turn = Schemas['TurnJson'];
export type Turns = Schemas['LastTurns'];

/** What is kept of the turns: nothing, the words, or the words and the sound. */
export type Keep = Schemas['Keep'];
export type Voice = keyof Schemas['Sounds'];
export type Sound = Schemas['SoundShown'];
export type KeptTurn = Schemas['KeptTurn'];
export type KeptTurns = Schemas['HistoryPage'];
export type HistorySummary = Schemas['HistoryShown'];
export type Deleted = Schemas['Deleted'];
export type AgainAnswer = Schemas['TrialAnswered'];

/** Empty and null mean what is configured, and a language of null that of the person. */
export type Role = Schemas['RoleShown'];
/** What a role says. */
export type RoleFields = Omit<Role, 'id' | 'version' | 'updated'>;
export type Roles = Schemas['Roles'];
export type RoleVersion = Schemas['VersionShown'];
export type RoleVersions = Schemas['Versions'];
export type RoleTrial = Schemas['RoleTrial'];

/** The services of a spoken turn: synthesiser, recogniser, language model. */
export type Service = Schemas['TurnService'];
export type ServiceTest = Schemas['Tested'];
/** What can be told of what a service was sent, and of what it gave back; left out where there is none. */
export type CallPart = Schemas['CallContent'];
export type CallFields = Required<CallPart>;
export type ServiceCall = Schemas['CallShown'];
/** Texts are left out where `words` is false. */
export type ServiceCalls = Schemas['CallsShown'];

/** Most of each measure in a day; 0 is no limit. */
export type UsageLimits = Schemas['LimitsShown'];
/** What is counted and can be limited: money, tokens read and written, seconds of speech heard and said. */
export type Measure = Schemas['Limited'];
export type Sums = Schemas['Sums'];
export type ReachedLimit = Schemas['ReachedLimit'];
export type UsageDay = Schemas['OfDay'];
export type UsageKind = Schemas['UsageKind'];
export type Usage = Schemas['UsageShown'];

export type ServiceState = Schemas['ServiceState'];
export type Ready = Schemas['Ready'];
export type Took = Schemas['Took'];
export type AdminMetrics = Schemas['AdminMetrics'];
export type Settings = Schemas['SettingsShown'];

export type MuseumSession = Schemas['MuseumSessionShown'];
export type MuseumSessions = Schemas['MuseumSessions'];
export type AuditEntry = Schemas['AuditShown'];
export type Audit = Schemas['AuditPage'];

export type Device = Schemas['DeviceShown'];
export type Devices = Schemas['DevicesShown'];
export type DeviceTools = Schemas['DeviceToolsShown'];
export type DeviceToken = Schemas['DeviceToken'];
export type DeviceStatus = Schemas['DeviceStatus'];

export type Person = Schemas['PersonShown'];
export type PersonDetail = Schemas['PersonDetail'];

export type Tool = Omit<Schemas['ToolShown'], 'parameters'> & { parameters: JsonSchema };
export type SourceReport = Omit<Schemas['SourceShown'], 'tools'> & { tools: Tool[] };
export type ToolServer = SourceReport & Pick<Schemas['ServerShown'], 'enabled' | 'settings'>;
export type ToolServerSettings = Schemas['ToolServerSettings'];
export type ToolPolicy = Schemas['ToolPolicy'];
export type ToolTokens = Schemas['ToolTokens'];
export type MadeToolToken = Schemas['MadeToolToken'];
export type ToolContent = Schemas['ToolAnswerPart'];
export type ToolResult = Schemas['ToolAnswer'];

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
