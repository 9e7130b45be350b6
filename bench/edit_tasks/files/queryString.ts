/** Query strings: parsing them, building them, and reading typed values from them. */

export type Query = Record<string, string[]>;

export function parse(text) {
  const query: Query = {};
  const body = text.startsWith("?") ? text.slice(1) : text;
  for (const part of body.split("&")) {
    if (part === "") {
      continue;
    }
    const place = part.indexOf("=");
    const key = decode(place < 0 ? part : part.slice(0, place));
    const value = place < 0 ? "" : decode(part.slice(place + 1));
    if (query[key] === undefined) {
      query[key] = [];
    }
    query[key].push(value);
  }
  return query;
}

function decode(text: string): string {
  return decodeURIComponent(text.replace(/\+/g, " "));
}

export function build(query: Query): string {
  const parts: string[] = [];
  for (const key of Object.keys(query).sort()) {
    for (const value of query[key]) {
      parts.push(encodeURIComponent(key) + "=" + encodeURIComponent(value));
    }
  }
  return parts.join("&");
}

export function first(query: Query, key: string): string | undefined {
  const values = query[key];
  if (values !== undefined) {
    if (values.length > 0) {
      return values[0];
    }
  }
  return undefined;
}

export function getNumber(query: Query, key: string, fallback: number): number {
  const text = first(query, key);
  if (text === undefined) {
    return fallback;
  }
  return Number(text);
}

export function getFlag(query: Query, key: string): boolean {
  const text = first(query, key);
  if (text === "1" || text === "true" || text === "yes") {
    return true;
  } else {
    return false;
  }
}

export function merge(a: Query, b: Query): Query {
  const merged: Query = {};
  for (const key of Object.keys(a)) {
    merged[key] = a[key].slice();
  }
  for (const key of Object.keys(b)) {
    merged[key] = (merged[key] || []).concat(b[key]);
  }
  return merged;
}

export function without(query: Query, names: string[]): Query {
  const kept: Query = {};
  for (const key of Object.keys(query)) {
    if (!names.includes(key)) {
      kept[key] = query[key];
    }
  }
  return kept;
}
