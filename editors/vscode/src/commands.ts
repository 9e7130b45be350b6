/** What a person can have done: each command asks for what it needs and hands it to the server. */

import {
  commands,
  type Disposable,
  type LogOutputChannel,
  type QuickPickItem,
  type SecretStorage,
  type TextEditor,
  window,
} from "vscode";
import type { Vivace } from "./client";
import type { Edits } from "./edit";
import {
  EDIT,
  type EditAsked,
  PAUSE,
  type Paused,
  REDIRECT,
  type Redirected,
  RENAME,
  type RenameAsked,
  REVIEW,
  type ReviewAsked,
  STOP,
  type Stopped,
} from "./protocol";
import { askForKey, findProgram, runInTerminal } from "./server";
import type { StatusItem } from "./status";

export interface Desk {
  vivace: Vivace;
  edits: Edits;
  status: StatusItem;
  log: LogOutputChannel;
  secrets: SecretStorage;
}

export function registerCommands(desk: Desk): Disposable[] {
  const table: Record<string, (argument?: Partial<EditAsked>) => Promise<void>> = {
    "vivace.edit": (request) => edit(desk, request?.uri ? request : aroundSelection()),
    "vivace.editFile": () => edit(desk, wholeFile()),
    "vivace.rename": () => rename(desk),
    "vivace.review": () => review(desk),
    "vivace.redirect": () => redirect(desk),
    "vivace.stop": () => stop(desk),
    "vivace.pause": () => desk.vivace.ask(PAUSE, { paused: desk.status.state !== "paused" } satisfies Paused),
    "vivace.start": async () => runInTerminal(await findProgram(desk.secrets), "up"),
    "vivace.doctor": async () => runInTerminal(await findProgram(desk.secrets), "doctor"),
    "vivace.key": () => askForKey(desk.secrets),
    "vivace.restart": () => desk.vivace.restart(),
    "vivace.log": async () => desk.log.show(),
    "vivace.menu": () => menu(desk),
  };
  return Object.entries(table).map(([name, run]) =>
    commands.registerCommand(name, (argument?: Partial<EditAsked>) =>
      run(argument).catch((error: unknown) => {
        void window.showErrorMessage(`Vivace: ${error instanceof Error ? error.message : String(error)}`);
      }),
    ),
  );
}

function activeEditor(): TextEditor {
  const editor = window.activeTextEditor;
  if (!editor) throw new Error("Open a file to edit it.");
  return editor;
}

function aroundSelection(): Partial<EditAsked> {
  const { document, selection } = activeEditor();
  return { uri: document.uri.toString(), range: { start: selection.start, end: selection.end } };
}

function wholeFile(): Partial<EditAsked> {
  return { uri: activeEditor().document.uri.toString() };
}

async function edit(desk: Desk, request: Partial<EditAsked>): Promise<void> {
  const { uri } = request;
  if (!uri) return;
  if (desk.edits.has(uri)) {
    await redirect(desk);
    return;
  }
  const instruction = request.instruction ?? (await askFor(titleOf(request), "What is to change?"));
  if (!instruction) return;
  const asked: EditAsked = { ...request, uri, instruction };
  await desk.edits.during(uri, () => desk.vivace.ask(EDIT, asked));
}

function titleOf({ range }: Partial<EditAsked>): string {
  if (!range) return "Edit the file";
  const empty = range.start.line === range.end.line && range.start.character === range.end.character;
  return empty ? "Edit the definition at the cursor" : "Edit the selection";
}

/** What stands at the cursor, which is also where its code action was chosen. */
async function rename(desk: Desk): Promise<void> {
  const { document, selection } = activeEditor();
  const place = document.getWordRangeAtPosition(selection.start);
  const value = place ? document.getText(place) : "";
  const newName = (await window.showInputBox({ title: `Rename ${value} with its uses`, value }))?.trim();
  if (!newName || newName === value) return;
  const asked: RenameAsked = { uri: document.uri.toString(), position: selection.start, newName };
  await desk.vivace.ask(RENAME, asked);
}

/** Of the file that is looked at, or where there is none, of the first folder. */
async function review(desk: Desk): Promise<void> {
  const uri = window.activeTextEditor?.document.uri;
  await desk.vivace.ask(REVIEW, (uri?.scheme === "file" ? { uri: uri.toString() } : {}) satisfies ReviewAsked);
}

async function redirect(desk: Desk): Promise<void> {
  const uri = activeEditor().document.uri.toString();
  const instruction = await askFor("Redirect the edit", "In which direction shall it go?");
  if (instruction) await desk.vivace.ask(REDIRECT, { uri, instruction } satisfies Redirected);
}

async function stop(desk: Desk): Promise<void> {
  const uri = activeEditor().document.uri.toString();
  await desk.vivace.ask(STOP, { uri } satisfies Stopped);
}

async function askFor(title: string, placeHolder: string): Promise<string | undefined> {
  return (await window.showInputBox({ title, placeHolder, ignoreFocusOut: true }))?.trim();
}

async function menu({ status }: Desk): Promise<void> {
  const start = { label: "$(play) Start a server", description: "vivace up, in a terminal", command: "vivace.start" };
  const entries: (QuickPickItem & { command: string })[] = [
    { label: "$(pulse) Doctor", description: "what works, and what to do", command: "vivace.doctor" },
    status.state === "paused"
      ? { label: "$(debug-continue) Resume completions", command: "vivace.pause" }
      : { label: "$(debug-pause) Pause completions", command: "vivace.pause" },
    { label: "$(debug-stop) Stop the edit", command: "vivace.stop" },
    { label: "$(key) Set the server's key", command: "vivace.key" },
    { label: "$(debug-restart) Restart the language server", command: "vivace.restart" },
    { label: "$(output) Show log", command: "vivace.log" },
  ];
  const offered = status.state === "unreachable" ? [start, ...entries] : [...entries, start];
  const chosen = await window.showQuickPick(offered, { title: "Vivace", placeHolder: status.reason });
  if (chosen) await commands.executeCommand(chosen.command);
}
