// The tests of services run in this page, one at a time. Results last until the page is reloaded; the outcome of the last
// test of all services lasts until the tab is closed. Not for showing them.
import { testService } from '../lib/api';
import { ApiError } from '../lib/errors';
import { recall, recallSession, remember, rememberSession } from '../lib/storage';
import type { Service, ServiceTest } from '../lib/types';
import { type Outcome, outcomeOf, readOutcome, SERVICES } from './estimate';

/** One test: its result, and the recording for the recogniser, in base64. */
export interface Run { number: number; at: string; result: ServiceTest; recording: string | null }

/** Number of results held per service. */
const KEPT = 5;
const LAST = 'services_last';
const TESTED = 'services_tested';

class Tests {
  /** Results by service, newest first. */
  runs = $state.raw<Record<Service, Run[]>>({ tts: [], asr: [], llm: [] });
  /** Error of the last request by service, if it failed. */
  errors = $state.raw<Record<Service, unknown>>({ tts: null, asr: null, llm: null });
  running = $state<Service | null>(null);
  all = $state(false);
  /** Outcome of the last test of all services in this tab. */
  last = $state.raw<Outcome | null>(readOutcome(recallSession(LAST)));
  /** True if this tab has tested a service. */
  here = $state(recallSession(TESTED) !== null);
  private count = 0;

  get busy(): boolean {
    return this.all || this.running !== null;
  }

  /** True if this browser has ever tested a service. */
  get ever(): boolean {
    return this.here || recall(TESTED) !== null;
  }

  /** Tests a service, unless a test is running. */
  async test(service: Service, recording: string | null = null): Promise<void> {
    if (!this.busy) await this.run(service, recording);
  }

  /** Tests all services one after the other. */
  async testAll(): Promise<void> {
    if (this.busy) return;
    this.all = true;
    this.tell(null);
    const results: Partial<Record<Service, ServiceTest>> = {};
    try {
      for (const service of SERVICES) {
        const result = await this.run(service, null);
        if (result) results[service] = result;
        const error = this.errors[service];
        // The session has ended: there is no outcome.
        if (error instanceof ApiError && error.status === 401) return;
      }
      this.tell(outcomeOf(results));
    } finally {
      this.all = false;
    }
  }

  private async run(service: Service, recording: string | null): Promise<ServiceTest | null> {
    this.running = service;
    this.errors = { ...this.errors, [service]: null };
    try {
      const result = await testService(service, recording ? { recording } : {});
      const run: Run = { number: ++this.count, at: new Date().toISOString(), result, recording };
      this.runs = { ...this.runs, [service]: [run, ...this.runs[service]].slice(0, KEPT) };
      this.here = true;
      remember(TESTED, 'yes');
      rememberSession(TESTED, 'yes');
      return result;
    } catch (error) {
      this.errors = { ...this.errors, [service]: error };
      return null;
    } finally {
      this.running = null;
    }
  }

  private tell(outcome: Outcome | null): void {
    this.last = outcome;
    rememberSession(LAST, outcome ? JSON.stringify(outcome) : null);
  }
}

export const tests = new Tests();
