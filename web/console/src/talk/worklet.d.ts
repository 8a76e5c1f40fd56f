// What exists beside the sound card, where worklets run; the types of a page do not have it.
declare abstract class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare function registerProcessor(name: string, processor: unknown): void;
