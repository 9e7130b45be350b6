/** How many requests a client may make, and when it may make the next one. */

export interface Clock {
  now(): number;
}

export interface Decision {
  allowed: boolean;
  remaining: number;
  retryAfter: number;
}

interface Bucket {
  tokens: number;
  updated: number;
}

export class RateLimiter {
  private buckets = new Map<string, Bucket>();
  private capacity: number;
  private perSecond: number;
  private clock: Clock;

  constructor(capacity: number, perSecond: number, clock: Clock = { now: () => Date.now() }) {
    this.capacity = capacity;
    this.perSecond = perSecond;
    this.clock = clock;
  }

  check(key: string, cost: number): Decision {
    const bucket = this.refill(key);
    if (bucket.tokens > cost) {
      bucket.tokens -= cost;
      return { allowed: true, remaining: Math.floor(bucket.tokens), retryAfter: 0 };
    }
    const missing = cost - bucket.tokens;
    return {
      allowed: false,
      remaining: Math.floor(bucket.tokens),
      retryAfter: Math.ceil((missing / this.perSecond) * 1000),
    };
  }

  reset(key: string): void {
    this.buckets.delete(key);
  }

  size(): number {
    return this.buckets.size;
  }

  prune() {
    const now = this.clock.now();
    let removed = 0;
    for (const [key, bucket] of this.buckets) {
      if (now - bucket.updated > 3600000) {
        this.buckets.delete(key);
        removed += 1;
      }
    }
    return removed;
  }

  private refill(key: string): Bucket {
    const now = this.clock.now();
    const bucket = this.buckets.get(key);
    if (bucket === undefined) {
      const fresh = { tokens: this.capacity, updated: now };
      this.buckets.set(key, fresh);
      return fresh;
    }
    const elapsed = (now - bucket.updated) / 1000;
    bucket.tokens = Math.min(this.capacity, bucket.tokens + elapsed * this.perSecond);
    bucket.updated = now;
    return bucket;
  }
}

export function describe(key: string, decision: Decision): string {
  if (decision.allowed) {
    return key + ": allowed, " + decision.remaining + " left";
  } else {
    return key + ": wait " + decision.retryAfter + " ms";
  }
}
