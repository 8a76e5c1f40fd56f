// The page as an MCP server: answers the server's JSON-RPC requests for its tools. Not for what the tools do.
import type { JsonSchema } from '../lib/types';

export interface DeviceTool {
  name: string;
  description: string;
  inputSchema: JsonSchema;
  /** Runs the tool and returns its result for the model. */
  run: (args: Record<string, unknown>) => unknown;
}

export interface Request { jsonrpc?: string; id?: number | string; method?: string; params?: Record<string, unknown> }

/** Answers a request; null for a notification. */
export function answer(payload: unknown, tools: readonly DeviceTool[]): object | null {
  const request = (payload ?? {}) as Request;
  if (request.id === undefined || typeof request.method !== 'string') return null;
  const reply = (body: object) => ({ jsonrpc: '2.0', id: request.id, ...body });
  const result = (value: unknown) => reply({ result: value });
  switch (request.method) {
    case 'initialize':
      return result({
        protocolVersion: '2024-11-05', capabilities: { tools: {} }, serverInfo: { name: 'hearken-console', version: '1.0.0' },
      });
    case 'ping':
      return result({});
    case 'tools/list':
      return result({ tools: tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema })) });
    case 'tools/call':
      return call(request, tools, result, (message) => reply({ error: { code: -32602, message } }));
    default:
      return reply({ error: { code: -32601, message: `Unknown method: ${request.method}` } });
  }
}

function call(
  request: Request,
  tools: readonly DeviceTool[],
  result: (value: unknown) => object,
  wrong: (message: string) => object,
): object {
  const name = request.params?.name;
  const tool = tools.find((known) => known.name === name);
  if (!tool) return wrong(`Unknown tool: ${String(name)}`);
  const args = (request.params?.arguments ?? {}) as Record<string, unknown>;
  const missing = tool.inputSchema.required?.find((field) => args[field] === undefined);
  if (missing) return wrong(`Missing argument: ${missing}`);
  try {
    const value = tool.run(args);
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    return result({ content: [{ type: 'text', text }], isError: false });
  } catch (error) {
    return wrong(error instanceof Error ? error.message : String(error));
  }
}

/** Reads a whole number within bounds; throws the error for the model. */
export function whole(args: Record<string, unknown>, name: string, least: number, most: number): number {
  const value = Number(args[name]);
  if (!Number.isInteger(value) || value < least || value > most) throw new Error(`${name} must be ${least} to ${most}`);
  return value;
}
