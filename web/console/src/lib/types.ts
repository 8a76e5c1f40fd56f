// Short names for the types of the server's API, which api-schema.ts has from the server's description. Not for types of
// single screens.
//
// Written by hand:
// - JsonSchema, and the tools that have one: the description only says "object", since any JSON Schema is allowed
// - Ota: the firmware's protocol is not described
import type { components } from './api-schema';

type Schemas = components['schemas'];

/** Source of the administrator's password: not set, set by a user, or set by the configuration. */
export type PasswordState = Schemas['PasswordState'];
export type Setup = Schemas['SetupShown'];
export type TokenPair = Schemas['TokenPair'];

export type ListedAccount = Schemas['AccountShown'];
export type Accounts = Schemas['AccountsShown'];

/** A call pending confirmation by the user. */
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

/** What is stored per turn: nothing, text, or text and audio. */
export type Keep = Schemas['Keep'];
export type Voice = keyof Schemas['Sounds'];
export type Sound = Schemas['SoundShown'];
export type KeptTurn = Schemas['KeptTurn'];
export type KeptTurns = Schemas['HistoryPage'];
export type HistorySummary = Schemas['HistoryShown'];
export type Deleted = Schemas['Deleted'];
export type AgainAnswer = Schemas['TrialAnswered'];

/** Empty and null mean the server default; a language of null, the language of the user. */
export type Role = Schemas['RoleShown'];
/** Editable fields of a role. */
export type RoleFields = Omit<Role, 'id' | 'version' | 'updated'>;
export type Roles = Schemas['Roles'];
export type RoleVersion = Schemas['VersionShown'];
export type RoleVersions = Schemas['Versions'];
export type RoleTrial = Schemas['RoleTrial'];

/** The services of a spoken turn: synthesiser, recogniser, language model. */
export type Service = Schemas['TurnService'];
export type ServiceTest = Schemas['Tested'];
/** Known properties of a request to a service, or of its response. */
export type CallPart = Schemas['CallContent'];
export type CallFields = Required<CallPart>;
export type ServiceCall = Schemas['CallShown'];
/** Without texts if `words` is false. */
export type ServiceCalls = Schemas['CallsShown'];

/** Daily limit of each measure; 0 is no limit. */
export type UsageLimits = Schemas['LimitsShown'];
/** Measures that are counted and can be limited: cost, tokens (input and output), seconds of speech (input and output). */
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

/** The part of JSON Schema that the console reads. */
export interface JsonSchema {
  type?: string | string[]; title?: string; description?: string; properties?: Record<string, JsonSchema>; required?: string[];
  enum?: unknown[]; items?: JsonSchema; default?: unknown; minimum?: number; maximum?: number; format?: string;
}

// Not part of the description.

export interface Ota {
  websocket?: { url: string; token?: string; version?: number };
  firmware?: { version: string; url: string };
  activation?: { code: string; message: string; challenge: string; timeout_ms: number };
  server_time?: { timestamp: number; timezone_offset: number };
}
