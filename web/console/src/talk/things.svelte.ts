// The lamp, loudspeaker and screen of the page as a device, with the tools that change them. Not for the protocol.
import { type DeviceTool, whole } from './mcp';

export class Things {
  lampOn = $state(false);
  rgb = $state<[number, number, number]>([255, 214, 130]);
  volume = $state(70);
  brightness = $state(80);
  /** Last tool call, with its arguments. */
  called = $state.raw<{ tool: string; args: string } | null>(null);

  get lampColour(): string {
    return `rgb(${this.rgb.join(' ')})`;
  }

  readonly tools: readonly DeviceTool[] = [
    this.tool('self.get_device_status', 'Tells the volume, the screen brightness and the lamp of this device.', {}, () => ({
      audio_speaker: { volume: this.volume },
      screen: { brightness: this.brightness },
      lamp: { on: this.lampOn, rgb: this.rgb },
      network: { type: 'browser', signal: navigator.onLine ? 'online' : 'offline' },
    })),
    this.tool('self.audio_speaker.set_volume', 'Sets the volume, 0 to 100.', percent('volume'), (args) => {
      this.volume = whole(args, 'volume', 0, 100);
      return true;
    }),
    this.tool('self.screen.set_brightness', 'Sets the brightness of the screen, 0 to 100.', percent('brightness'), (args) => {
      this.brightness = whole(args, 'brightness', 0, 100);
      return true;
    }),
    this.tool('self.lamp.turn_on', 'Turns the lamp on. 打开灯。', {}, () => (this.lampOn = true)),
    this.tool('self.lamp.turn_off', 'Turns the lamp off. 关闭灯。', {}, () => {
      this.lampOn = false;
      return true;
    }),
    this.tool('self.light.set_rgb', 'Turns the lamp on in a colour, each part 0 to 255. 设置灯的颜色。', {
      r: { type: 'integer', minimum: 0, maximum: 255 },
      g: { type: 'integer', minimum: 0, maximum: 255 },
      b: { type: 'integer', minimum: 0, maximum: 255 },
    }, (args) => {
      this.rgb = [whole(args, 'r', 0, 255), whole(args, 'g', 0, 255), whole(args, 'b', 0, 255)];
      this.lampOn = true;
      return true;
    }),
  ];

  private tool(
    name: string,
    description: string,
    properties: NonNullable<DeviceTool['inputSchema']['properties']>,
    run: DeviceTool['run'],
  ): DeviceTool {
    const noted: DeviceTool['run'] = (args) => {
      const result = run(args);
      this.called = { tool: name, args: JSON.stringify(args) };
      return result;
    };
    return { name, description, inputSchema: { type: 'object', properties, required: Object.keys(properties) }, run: noted };
  }
}

function percent(name: string): NonNullable<DeviceTool['inputSchema']['properties']> {
  return { [name]: { type: 'integer', minimum: 0, maximum: 100 } };
}
