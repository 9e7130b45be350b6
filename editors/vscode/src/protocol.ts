/** What `src/vivace/lsp/extensions.py` adds to LSP: its mirror, name by name, which a test compares with it. */

import { NotificationType } from "vscode-languageclient/node";
import type { Position, Range } from "vscode-languageclient/node";

/** Of what is below, what a client knows: told in `capabilities.experimental.vivace`. */
export interface Known {
  edit: boolean;
  status: boolean;
  instruction: boolean;
  rename: boolean;
}

// -- commands: one object as their argument

export const EDIT = "vivace.edit";
export const REDIRECT = "vivace.redirect";
export const STOP = "vivace.stop";
export const RENAME = "vivace.rename";
export const REVIEW = "vivace.review";
export const PAUSE = "vivace.pause";
/** The editor itself runs it, when a suggestion is taken. */
export const ACCEPTED = "vivace.accepted";
export const CURSOR = "vivace.cursor";

/** A range that is empty means the definition around it; none means the file. */
export interface EditAsked {
  uri: string;
  instruction: string;
  range?: Range;
  /** The rule whose finding there is to be fixed. */
  finding?: string;
}

export interface RenameAsked {
  uri: string;
  position: Position;
  newName: string;
}

/** Of the work tree of a document; none: of the first folder. */
export interface ReviewAsked {
  uri?: string;
  revision?: string;
  deep?: boolean;
}

export interface Redirected {
  uri: string;
  instruction: string;
}

export interface Stopped {
  uri: string;
}

export interface Paused {
  paused: boolean;
}

export interface Accepted {
  number: number;
}

/** It rests here, and a key may follow. */
export interface CursorMoved {
  uri: string;
  position: Position;
}

// -- notifications from the server

export interface ShownHunk {
  range: Range;
  newText: string;
}

/** All hunks so far, for the document's text of this version. */
export interface EditProgress {
  uri: string;
  version: number;
  hunks: ShownHunk[];
  done: boolean;
  message: string;
}

export const EDIT_PROGRESS = new NotificationType<EditProgress>("vivace/edit");

export interface Status {
  state: "ready" | "busy" | "paused" | "unreachable";
  /** Why nothing comes, for the person. */
  why: string;
  /** The document this is about; empty for all of them. */
  uri: string;
  model: string;
  /** Tokens per second. */
  speed: number | null;
  /** The place in the queue. */
  queue: number | null;
}

export const STATUS = new NotificationType<Status>("vivace/status");
