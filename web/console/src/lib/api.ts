// Every route of the server that the console uses, with its response type. Not for credentials or errors.
import { ApiError } from './errors';
import { call, read, send, type Sent } from './http';
import type { Account, Right } from './rights';
import { session } from './session.svelte';
import type {
  Accounts, AdminMetrics, AgainAnswer, Audit, ChatMessages, ChatSessions, Deleted, Device, Devices, DeviceStatus,
  DeviceToken, DeviceTools, Dropped, HistorySummary, KeptTurn, KeptTurns, ListedAccount, MadeToolToken, MuseumSessions,
  Ota, Person, PersonDetail, Ready, Role, RoleFields, Roles, RoleTrial, RoleVersions, Service, ServiceCalls,
  ServiceTest, Settings, Setup, SourceReport, Tool, ToolResult, ToolServer, ToolServerSettings, ToolTokens, Turns,
  Usage, Voice, WaitingCalls,
} from './types';

const one = (base: string, id: string, rest = '') => `${base}/${encodeURIComponent(id)}${rest}`;
const query = (of: Record<string, string | number | null | undefined>) => {
  const set = Object.entries(of).filter(([, value]) => value !== null && value !== undefined && value !== '');
  const text = new URLSearchParams(set.map(([name, value]) => [name, String(value)])).toString();
  return text ? `?${text}` : '';
};

/** The server answers 503 with the same body while it is not ready. */
export async function readyz(signal?: AbortSignal): Promise<Ready> {
  const response = await send('/readyz', signal ? { signal } : {});
  return (await response.json()) as Ready;
}

export const healthz = async () => (await (await send('/healthz')).json()) as { version: string };

export const metricsText = () => session.call<string>('open', '/metrics');

/** Returns the source of the administrator's password; needs no login. Setting it is in session.svelte.ts. */
export const passwordState = async (signal: AbortSignal) =>
  (await call<Setup>('/api/admin/setup', { signal })).password;

export const admin = {
  metrics: () => session.call<AdminMetrics>('admin', '/api/admin/metrics'),
  config: () => session.call<Settings>('admin', '/api/admin/config'),
  change: (body: Record<string, unknown>) =>
    session.call<Settings>('admin', '/api/admin/config', { method: 'PATCH', body }),
  sessions: (offset: number, limit = 50) =>
    session.call<MuseumSessions>('admin', `/api/admin/sessions${query({ offset, limit })}`),
  endSession: (id: string) => session.call<void>('admin', one('/api/admin/sessions', id), { method: 'DELETE' }),
  audit: (before: number | null, limit = 50) =>
    session.call<Audit>('admin', `/api/admin/audit${query({ before, limit })}`),
  /** Returns the backup of the store as a response with an unread body. */
  backup: async (signal: AbortSignal) => accepted(await session.send('admin', '/api/admin/backup', { signal })),
};

/** Accounts in addition to the built-in administrator. */
export const accounts = {
  list: async () => (await session.call<Accounts>('admin', '/api/accounts')).accounts,
  add: (body: Account & { password: string }) =>
    session.call<ListedAccount>('admin', '/api/accounts', { method: 'POST', body }),
  change: (name: string, body: { right?: Right; password?: string }) =>
    session.call<ListedAccount>('admin', one('/api/accounts', name), { method: 'PATCH', body }),
  remove: (name: string) => session.call<void>('admin', one('/api/accounts', name), { method: 'DELETE' }),
};

export const devices = {
  list: (after = '', limit = 100) => session.call<Devices>('operator', `/api/devices${query({ after, limit })}`),
  /** Returns all devices, page by page. */
  all: async () => {
    const found: Device[] = [];
    for (let after: string | null = ''; after !== null; ) {
      const page: Devices = await devices.list(after, 1_000);
      found.push(...page.devices);
      after = page.next;
    }
    return found;
  },
  get: (id: string) => session.call<Device>('operator', one('/api/devices', id)),
  bind: (code: string, name: string) => {
    const body = name ? { code, name } : { code };
    return session.call<Device>('operator', '/api/devices/bind', { method: 'POST', body });
  },
  change: (id: string, body: Partial<Pick<Device, 'name' | 'bound' | 'agent' | 'system_prompt' | 'role'>>) =>
    session.call<Device>('operator', one('/api/devices', id), { method: 'PATCH', body }),
  forget: (id: string) => session.call<void>('operator', one('/api/devices', id), { method: 'DELETE' }),
  order: (id: string, order: 'say' | 'alert' | 'custom' | 'reboot' | 'close', body: object = {}) =>
    session.call<unknown>('operator', one('/api/devices', id, `/${order}`), { method: 'POST', body }),
  status: (id: string) => session.call<DeviceStatus>('operator', one('/api/devices', id, '/status')),
  makeToken: (id: string) =>
    session.call<DeviceToken>('operator', one('/api/devices', id, '/tokens'), { method: 'POST', body: {} }),
  revokeTokens: (id: string) => session.call<void>('operator', one('/api/devices', id, '/tokens'), { method: 'DELETE' }),
  tools: (id: string) => session.call<DeviceTools>('operator', one('/api/devices', id, '/tools')),
  switchOff: (id: string, off: string[]) =>
    session.call<DeviceTools>('operator', one('/api/devices', id, '/tools'), { method: 'PUT', body: { off } }),
};

export const persons = {
  list: async () => (await session.call<{ persons: Person[] }>('operator', '/api/persons')).persons,
  get: (id: string) => session.call<PersonDetail>('operator', one('/api/persons', id)),
  enrol: (name: string, recordings: string[]) =>
    session.call<Person>('operator', '/api/persons', { method: 'POST', body: { name, recordings } }),
  change: (id: string, body: Partial<Pick<Person, 'name' | 'role'>>) =>
    session.call<Person>('operator', one('/api/persons', id), { method: 'PATCH', body }),
  forget: (id: string) => session.call<void>('operator', one('/api/persons', id, '/memories'), { method: 'DELETE' }),
  remove: (id: string) => session.call<void>('operator', one('/api/persons', id), { method: 'DELETE' }),
};

export const roles = {
  list: () => session.call<Roles>('operator', '/api/roles'),
  add: (body: Partial<RoleFields>) => session.call<Role>('operator', '/api/roles', { method: 'POST', body }),
  change: (id: string, body: Partial<RoleFields>) =>
    session.call<Role>('operator', one('/api/roles', id), { method: 'PATCH', body }),
  remove: (id: string) => session.call<void>('operator', one('/api/roles', id), { method: 'DELETE' }),
  versions: async (id: string) =>
    (await session.call<RoleVersions>('operator', one('/api/roles', id, '/versions'))).versions,
  restore: (id: string, version: number) =>
    session.call<Role>('operator', one('/api/roles', id, '/restore'), { method: 'POST', body: { version } }),
  try: (body: RoleTrial) => session.call<AgainAnswer>('operator', '/api/roles/try', { method: 'POST', body }),
};

/** Source that stands for all tool clients, which choose their names themselves. */
export const ALL_CLIENTS = 'endpoint';

export const tools = {
  list: async (agent = '') =>
    (await session.call<{ sources: SourceReport[] }>('operator', `/api/tools${query({ agent })}`)).sources,
  call: (source: string, tool: string, args: object, agent = '') =>
    session.call<ToolResult>('operator', '/api/tools/call', {
      method: 'POST', body: { source, tool, arguments: args, ...(agent ? { agent } : {}) },
    }),
  /** Accepts the definitions of these tools as they were shown: one that has changed since is refused. */
  accept: (source: string, tool: string | null, shown: readonly Tool[], agent = '') => {
    const definition_hashes = Object.fromEntries(shown.map((one) => [one.name, one.definition_hash]));
    return session.call<{ accepted: number }>('operator', '/api/tools/accept', {
      method: 'POST', body: { source, ...(tool ? { tool } : {}), definition_hashes, ...(agent ? { agent } : {}) },
    });
  },
  servers: async () => (await session.call<{ servers: ToolServer[] }>('operator', '/api/tools/servers')).servers,
  add: (body: ToolServerSettings) => session.call<ToolServer>('operator', '/api/tools/servers', { method: 'POST', body }),
  remove: (name: string) => session.call<void>('operator', one('/api/tools/servers', name), { method: 'DELETE' }),
  enable: (name: string, enabled: boolean) =>
    session.call<ToolServer>('operator', one('/api/tools/servers', name, '/enabled'), { method: 'PUT', body: { enabled } }),
  tokens: async () => (await session.call<ToolTokens>('operator', '/api/tools/tokens')).tokens,
  makeToken: (name: string, agent: string) =>
    session.call<MadeToolToken>('operator', '/api/tools/tokens', {
      method: 'POST', body: { ...(name ? { name } : {}), ...(agent ? { agent } : {}) },
    }),
  revokeToken: (serial: string) => session.call<void>('operator', one('/api/tools/tokens', serial), { method: 'DELETE' }),
  waiting: async () => (await session.call<WaitingCalls>('operator', '/api/tools/waiting')).waiting,
  /** Drops the pending call of this client. */
  drop: (client: string) =>
    session.call<Dropped>('operator', '/api/tools/waiting', { method: 'POST', body: { client, drop: true } }),
};

export const chats = {
  list: (status: string, offset: number, limit = 20) =>
    session.call<ChatSessions>('open', `/api/sessions${query({ status, offset, limit })}`),
  messages: (id: string, before: number | null) =>
    session.call<ChatMessages>('open', one('/api/sessions', id, `/messages${query({ before, limit: 50 })}`)),
  remove: (id: string) => session.call<unknown>('open', one('/api/sessions', id), { method: 'DELETE' }),
  archive: (id: string) => session.call<unknown>('open', one('/api/sessions', id, '/archive'), { method: 'POST' }),
  restore: (id: string) => session.call<unknown>('open', one('/api/sessions', id, '/restore'), { method: 'POST' }),
};

/** Sends a request for turns with the first credential that opens them. */
async function sendTurns(path: string, sent: Sent = {}): Promise<Response> {
  for (const door of ['operator', 'admin'] as const) {
    if (!session.opens(door)) continue;
    try {
      return await session.send(door, path, sent, true);
    } catch (error) {
      if (!(error instanceof ApiError && error.code === 'LOCKED')) throw error;
    }
  }
  throw new ApiError(401, 'LOCKED', '');
}

export const turns = {
  list: async (limit = 50) => (await read<Turns>(await sendTurns(`/api/turns${query({ limit })}`))).turns,
  live: (signal: AbortSignal) => sendTurns('/api/turns/live', { signal, headers: { Accept: 'text/event-stream' } }),
};

/** Filter of stored turns; empty fields do not filter. */
export interface HistoryFilter { client: string; kind: string; outcome: string; q: string }

/** Returns a 2xx response unread; throws for others. */
async function accepted(response: Response): Promise<Response> {
  if (!response.ok) await read(response);
  return response;
}

/** Reads a 2xx response as a file. */
async function fileOf(response: Response): Promise<Blob> {
  return (await accepted(response)).blob();
}

const ofHistory = async <T>(path: string, sent: Sent = {}) => read<T>(await sendTurns(`/api/history${path}`, sent));

export const history = {
  summary: () => ofHistory<HistorySummary>('/summary'),
  list: (filter: HistoryFilter, before: number | null, limit: number, signal: AbortSignal) =>
    ofHistory<KeptTurns>(query({ ...filter, before, limit }), { signal }),
  get: (id: string) => ofHistory<KeptTurn>(one('', id)),
  sound: async (id: string, voice: Voice) => fileOf(await sendTurns(one('/api/history', id, `/${voice}.wav`))),
  recording: async (id: string) => fileOf(await sendTurns(one('/api/history', id, '/recording.jsonl'))),
  export: async (filter: HistoryFilter) => fileOf(await sendTurns(`/api/history/export${query({ ...filter })}`)),
  remove: (id: string) => ofHistory<void>(one('', id), { method: 'DELETE' }),
  removeOf: (client: string) => ofHistory<Deleted>(query({ client }), { method: 'DELETE' }),
  removeAll: () => ofHistory<Deleted>(query({ all: 'true' }), { method: 'DELETE' }),
  again: (id: string, body: { system_prompt?: string; model?: string }) =>
    ofHistory<AgainAnswer>(one('', id, '/again'), { method: 'POST', body }),
};

/** Input of a service test; empty is the server's default. A recording is a WAV file in base64. */
export interface TestInput { recording?: string; text?: string; voice?: string }

/** Tests a service: the recogniser with a recording, the synthesiser with a text and a voice. */
export const testService = (service: Service, input: TestInput = {}) =>
  session.call<ServiceTest>('operator', '/api/services/test', { method: 'POST', body: { service, ...input } });

/** Returns the recent calls of a service or of all services, newest first. */
export const serviceCalls = (service: Service | '', limit: number) =>
  session.call<ServiceCalls>('operator', `/api/services/calls${query({ service, limit })}`);

/** Returns the usage of the last `days` days, including today. */
export const usageOf = (days: number) => session.call<Usage>('operator', `/api/usage${query({ days })}`);

/** Returns the response time of the OTA address in milliseconds. The request names no device: the server stores nothing. */
export async function otaAnswers(): Promise<number> {
  const begun = performance.now();
  await call<string>('/xiaozhi/ota/');
  return performance.now() - begun;
}

/** Requests the configuration of a device, as firmware does at boot. */
export function boot(deviceId: string, clientId: string): Promise<Ota> {
  const headers = { 'Device-Id': deviceId, 'Client-Id': clientId };
  const body = { application: { version: '1.0.0' }, board: { type: 'hearken-console' }, chip_model_name: 'browser' };
  return call<Ota>('/xiaozhi/ota/', { method: 'POST', headers, body });
}
