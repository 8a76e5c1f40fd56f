// The socket of a device: opening it with a hello, sending and receiving. Not for the meaning of messages.
import { type Framing, pack, unpack } from './framing';
import { type AudioParams, audioOf, type Downlink, hello, readMessage } from './wire';

/** Maximum wait for the server's hello, as in firmware, in milliseconds. */
const HELLO_MS = 10_000;

export interface Events {
  message: (message: Downlink) => void;
  packet: (packet: Uint8Array) => void;
  closed: (code: number, reason: string) => void;
  /** Every text frame, for the log. */
  frame: (up: boolean, text: string) => void;
}

export class Link {
  sessionId = '';
  params: AudioParams = { sample_rate: 24_000, frame_duration: 60 };

  private constructor(
    private readonly socket: WebSocket,
    private readonly framing: Framing,
    private readonly events: Events,
  ) {}

  /** Connects, sends a hello and waits for the server's. */
  static open(url: string, framing: Framing, events: Events): Promise<Link> {
    const socket = new WebSocket(url);
    socket.binaryType = 'arraybuffer';
    const link = new Link(socket, framing, events);
    return new Promise((done, fail) => {
      const late = setTimeout(() => {
        link.close();
        fail(new Error('NO_HELLO'));
      }, HELLO_MS);
      socket.onopen = () => link.send(hello(framing));
      socket.onmessage = (event: MessageEvent<string | ArrayBuffer>) => {
        if (typeof event.data !== 'string') return link.binary(event.data);
        events.frame(false, event.data);
        const message = readMessage(event.data);
        if (message?.type === 'hello') {
          link.sessionId = message.session_id ?? '';
          link.params = audioOf(message);
          clearTimeout(late);
          done(link);
        } else if (message) {
          events.message(message);
        }
      };
      socket.onclose = (event) => {
        clearTimeout(late);
        fail(new Error(`CLOSED ${event.code}`));
        events.closed(event.code, event.reason);
      };
    });
  }

  /** Sends a message; all except the hello carry the session id. */
  send(message: object): void {
    if (this.socket.readyState !== WebSocket.OPEN) return;
    const isHello = (message as { type?: string }).type === 'hello';
    const text = JSON.stringify(isHello ? message : { session_id: this.sessionId, ...message });
    this.socket.send(text);
    this.events.frame(true, text);
  }

  sendPacket(packet: Uint8Array): void {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(pack(this.framing, packet));
  }

  /** Closes the socket without further events: its end must not be attributed to a later connection. */
  close(): void {
    this.socket.onmessage = this.socket.onclose = null;
    this.socket.close(1000);
  }

  private binary(data: ArrayBuffer): void {
    const packet = unpack(this.framing, new Uint8Array(data));
    if (packet) this.events.packet(packet);
  }
}
