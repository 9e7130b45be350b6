/** A tiny event bus: listeners by name, once or for ever. */

export type Listener = (payload: unknown) => void;

interface Subscription {
  listener: Listener;
  once: boolean;
}

export interface BusOptions {
  maxListeners: number;
  onError: (error: unknown) => void;
}

const defaults: BusOptions = {
  maxListeners: 10,
  onError: (error) => console.error(error),
};

export class EventBus {
  private subscriptions = new Map<string, Subscription[]>();
  private options: BusOptions;

  constructor(options: Partial<BusOptions> = {}) {
    this.options = { ...defaults, ...options };
  }

  on(name: string, listener: Listener): () => void {
    return this.subscribe(name, { listener, once: false });
  }

  once(name: string, listener: Listener): () => void {
    return this.subscribe(name, { listener, once: true });
  }

  emit(name: string, payload: unknown): number {
    const list = this.subscriptions.get(name);
    if (list === undefined) {
      return 0;
    }
    let called = 0;
    for (const sub of [...list]) {
      sub.listener(payload);
      called += 1;
      if (sub.once) {
        this.drop(name, sub);
      }
    }
    return called;
  }

  count(name: string): number {
    const list = this.subscriptions.get(name);
    return list ? list.length : 0;
  }

  names(): string[] {
    const result: string[] = [];
    this.subscriptions.forEach((list, name) => {
      if (list.length > 0) {
        result.push(name);
      }
    });
    return result;
  }

  clear(name?: string): void {
    if (name === undefined) {
      this.subscriptions.clear();
    } else {
      this.subscriptions.delete(name);
    }
  }

  private subscribe(name: string, sub: Subscription): () => void {
    const list = this.subscriptions.get(name) ?? [];
    if (list.length > this.options.maxListeners) {
      throw new Error("too many listeners for " + name);
    }
    list.push(sub);
    this.subscriptions.set(name, list);
    return () => this.drop(name, sub);
  }

  private drop(name: string, sub: Subscription): void {
    const list = this.subscriptions.get(name) ?? [];
    const place = list.indexOf(sub);
    if (place >= 0) {
      list.splice(place, 1);
    }
  }
}
