// The page as a device: boots, connects, listens, speaks and answers tool calls, like firmware. Not for how it looks.
import { boot } from '../lib/api';
import { recall, remember } from '../lib/storage';
import { ability, type Ability } from './ability';
import { PacketPlayer, type Player, SentencePlayer } from './downlink';
import type { Framing } from './framing';
import { Link } from './link';
import { answer } from './mcp';
import { loudness } from './resample';
import { ROOT } from '../lib/http';
import { openMicrophone, readFile, speakFile } from './sources';
import { Things } from './things.svelte';
import { Uplink } from './uplink';
import { type Downlink, type Emotion, emotionOf, type Mode, newDeviceId, newUuid, socketUrl } from './wire';

export type State = 'off' | 'booting' | 'unbound' | 'connecting' | 'idle' | 'listening' | 'speaking';
export interface Line { id: number; who: 'you' | 'device' | 'notice'; text: string; partial: boolean }
export interface Frame { id: number; up: boolean; text: string }
export type Trouble = 'microphone' | 'encoder' | 'file' | 'boot' | 'hello' | 'closed';

/** Maximum numbers of lines and frames held. */
const MOST_LINES = 200;
const MOST_FRAMES = 100;
/** Maximum silence sent after a file while waiting for the server's reply to start, in milliseconds. */
const FILE_SILENCE_MS = 8_000;

export class TalkDevice {
  state = $state<State>('off');
  mode = $state<Mode>('manual');
  framing = $state<Framing>(1);
  emotion = $state<Emotion>('neutral');
  lines = $state<Line[]>([]);
  frames = $state.raw<Frame[]>([]);
  level = $state(0);
  speakerLevel = $state(0);
  code = $state('');
  trouble = $state.raw<{ what: Trouble; detail: string } | null>(null);
  able = $state.raw<Ability | null>(null);
  /** True while a file is sent in place of the microphone. */
  fileSpeaks = $state(false);
  held = $state(false);
  /** True during a conversation in which the server detects the end of speech. */
  converses = $state(false);
  readonly things = new Things();
  readonly deviceId = remembered('device_id', () => newDeviceId(random(5)));
  readonly clientId = remembered('client_id', () => newUuid(random(16)));

  private link: Link | null = null;
  private opening: Promise<boolean> | null = null;
  private context: AudioContext | null = null;
  private volume: GainNode | null = null;
  private player: Player | null = null;
  private uplink: Uplink | null = null;
  private closeMicrophone: (() => void) | null = null;
  /** True while microphone samples are sent. */
  private hears = false;
  private count = 0;

  get isConnected(): boolean {
    return this.state === 'idle' || this.state === 'listening' || this.state === 'speaking';
  }

  get sessionId(): string {
    return this.link?.sessionId ?? '';
  }

  async look(): Promise<void> {
    this.able ??= await ability();
  }

  /** Connects if necessary. Returns true if connected. */
  connect(): Promise<boolean> {
    if (this.isConnected) return Promise.resolve(true);
    this.opening ??= this.open().finally(() => (this.opening = null));
    return this.opening;
  }

  disconnect(): void {
    this.link?.close();
    this.reset();
  }

  /** Starts listening in the chosen mode: while the button is held, or until the server detects the end of speech. */
  async listen(): Promise<void> {
    if (!(await this.connect()) || !(await this.openMicrophone())) return;
    if (this.mode === 'manual' && !this.held) return;
    this.startListening(true);
  }

  /** Ends an utterance in manual mode. */
  async release(): Promise<void> {
    this.held = false;
    if (this.mode !== 'manual' || !this.hears) return;
    this.hears = false;
    this.level = 0;
    await this.uplink?.finish();
    this.link?.send({ type: 'listen', state: 'stop' });
    if (this.state === 'listening') this.state = 'idle';
  }

  async hold(): Promise<void> {
    this.held = true;
    await this.listen();
  }

  /** Interrupts the reply. The server ends it with `tts stop`. */
  abort(): void {
    this.link?.send({ type: 'abort' });
    this.player?.flush();
  }

  async sendText(text: string): Promise<void> {
    if (!(await this.connect())) return;
    if (this.state === 'speaking') this.abort();
    this.line('you', text);
    this.link?.send({ type: 'listen', state: 'detect', text });
  }

  /** Sends a file in place of the microphone. */
  async sendFile(file: Blob): Promise<void> {
    if (this.fileSpeaks) return;
    try {
      const samples = await readFile(file);
      if (!(await this.connect()) || !this.openUplink()) return;
      this.fileSpeaks = true;
      this.startListening(false);
      await this.speak(samples);
    } catch (error) {
      this.fail('file', error);
    } finally {
      this.fileSpeaks = false;
      this.level = 0;
    }
  }

  clear(): void {
    this.lines = [];
    this.frames = [];
  }

  setVolume(volume: number): void {
    this.things.volume = volume;
    this.applyVolume();
  }

  private async speak(samples: Float32Array): Promise<void> {
    const manual = this.mode === 'manual';
    let answered = false;
    const goOn = (silentMs: number) => {
      answered ||= this.state === 'speaking';
      if (!this.isConnected) return false;
      return silentMs < 0 || (!manual && !answered && silentMs < FILE_SILENCE_MS);
    };
    await speakFile(samples, (part) => this.send(part), goOn);
    if (!manual) return;
    await this.uplink?.finish();
    this.link?.send({ type: 'listen', state: 'stop' });
    if (this.state === 'listening') this.state = 'idle';
  }

  private async open(): Promise<boolean> {
    this.trouble = null;
    this.state = 'booting';
    await this.look();
    const ota = await boot(this.deviceId, this.clientId).catch((error: unknown) => this.fail('boot', error));
    if (!ota) return this.reset();
    if (ota.activation) {
      this.code = ota.activation.code;
      this.state = 'unbound';
      return false;
    }
    this.code = '';
    this.state = 'connecting';
    const ids = { deviceId: this.deviceId, clientId: this.clientId, token: ota.websocket?.token ?? '', version: this.framing };
    try {
      this.link = await Link.open(socketUrl({ protocol: location.protocol, host: location.host + ROOT }, ids), this.framing, {
        message: (message) => this.message(message),
        packet: (packet) => this.state === 'speaking' && this.player?.push(packet),
        closed: (code, reason) => this.closed(code, reason),
        frame: (up, text) => this.frame(up, text),
      });
      await this.openPlayer(this.link);
    } catch (error) {
      this.link?.close();
      this.trouble ??= { what: 'hello', detail: String(error) };
      return this.reset();
    }
    this.state = 'idle';
    return true;
  }

  private async openPlayer(link: Link): Promise<void> {
    this.context ??= new AudioContext();
    // A context created without a user gesture is suspended.
    if (this.context.state === 'suspended') void this.context.resume();
    if (!this.volume) {
      this.volume = this.context.createGain();
      this.volume.connect(this.context.destination);
    }
    this.applyVolume();
    this.player?.close();
    const onLevel = (level: number) => (this.speakerLevel = level);
    this.player = this.able?.decode
      ? await PacketPlayer.open(this.context, this.volume, link.params, onLevel)
      : new SentencePlayer(this.context, this.volume, link.params, onLevel);
  }

  private applyVolume(): void {
    if (this.volume) this.volume.gain.value = (this.things.volume / 100) ** 2;
  }

  private openUplink(): boolean {
    if (this.uplink) return true;
    if (!this.able?.encode) {
      this.fail('encoder', '');
      return false;
    }
    this.uplink = new Uplink((packet) => this.link?.sendPacket(packet), (error) => this.fail('encoder', error));
    return true;
  }

  private async openMicrophone(): Promise<boolean> {
    if (!this.openUplink()) return false;
    if (this.closeMicrophone) return true;
    if (!this.able?.microphone || !this.context) {
      this.fail('microphone', '');
      return false;
    }
    try {
      this.closeMicrophone = await openMicrophone(this.context, (samples) => this.hears && !this.fileSpeaks && this.send(samples));
      return true;
    } catch (error) {
      this.fail('microphone', error);
      return false;
    }
  }

  private send(samples: Float32Array): void {
    this.level = loudness(samples);
    this.uplink?.push(samples);
  }

  private startListening(withMicrophone: boolean): void {
    if (this.state === 'speaking' && this.mode !== 'realtime') this.abort();
    this.link?.send({ type: 'listen', state: 'start', mode: this.mode });
    this.hears = withMicrophone;
    this.converses = withMicrophone && this.mode !== 'manual';
    if (this.state !== 'speaking' || this.mode !== 'realtime') this.state = 'listening';
  }

  private message(message: Downlink): void {
    switch (message.type) {
      case 'stt':
        return this.heard(message.text ?? '', message.is_final === false);
      case 'llm':
        this.emotion = emotionOf(message.emotion);
        return;
      case 'tts':
        return this.tts(message);
      case 'mcp': {
        const payload = answer(message.payload, this.things.tools);
        this.applyVolume();
        if (payload) this.link?.send({ type: 'mcp', payload });
        return;
      }
      case 'alert':
        this.emotion = emotionOf(message.emotion);
        return this.line('notice', `${message.status ?? ''}: ${message.message ?? ''}`);
      case 'system':
        if (message.command === 'reboot') void this.reboot();
        return;
      case 'custom':
        return this.line('notice', JSON.stringify(message.payload));
    }
  }

  private tts(message: Downlink): void {
    if (message.state === 'start') {
      if (this.state === 'speaking') return;
      // Firmware drops queued audio, and closes the microphone unless it has echo cancellation.
      this.player?.flush();
      if (this.mode !== 'realtime') this.hears = false;
      this.state = 'speaking';
    } else if (message.state === 'sentence_start') {
      this.player?.sentence();
      this.line('device', message.text ?? '');
    } else if (message.state === 'stop' && this.state === 'speaking') {
      void this.stopped();
    }
  }

  private async stopped(): Promise<void> {
    const goesOn = this.converses && !this.fileSpeaks;
    this.player?.sentence();
    if (this.mode === 'realtime' && this.hears) {
      this.state = 'listening';
      return;
    }
    this.state = 'idle';
    await this.player?.drained();
    this.speakerLevel = 0;
    if (this.mode === 'auto' && goesOn && this.state === 'idle') this.startListening(true);
  }

  private heard(text: string, partial: boolean): void {
    const last = this.lines.at(-1);
    if (last?.who === 'you' && last.partial) {
      last.text = text;
      last.partial = partial;
    } else if (last?.who !== 'you' || last.text !== text) {
      // The server echoes typed text, which is already shown.
      this.line('you', text, partial);
    }
  }

  private line(who: Line['who'], text: string, partial = false): void {
    this.lines.push({ id: ++this.count, who, text, partial });
    if (this.lines.length > MOST_LINES) this.lines.splice(0, this.lines.length - MOST_LINES);
  }

  private frame(up: boolean, text: string): void {
    this.frames = [...this.frames.slice(1 - MOST_FRAMES), { id: ++this.count, up, text }];
  }

  private async reboot(): Promise<void> {
    this.disconnect();
    await new Promise((done) => setTimeout(done, 500));
    await this.connect();
  }

  private closed(code: number, reason: string): void {
    if (!this.isConnected) return;
    if (code !== 1000) this.trouble = { what: 'closed', detail: `${code} ${reason}`.trim() };
    this.reset();
  }

  private fail(what: Trouble, error: unknown): null {
    this.trouble = { what, detail: error instanceof Error ? error.message : String(error) };
    return null;
  }

  private reset(): false {
    this.hears = this.held = this.converses = false;
    this.level = this.speakerLevel = 0;
    this.link = null;
    this.player?.close();
    this.player = null;
    this.closeMicrophone?.();
    this.closeMicrophone = null;
    this.uplink?.close();
    this.uplink = null;
    this.state = 'off';
    return false;
  }
}

function random(count: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(count));
}

function remembered(name: string, make: () => string): string {
  const known = recall(name);
  if (known) return known;
  const made = make();
  remember(name, made);
  return made;
}
