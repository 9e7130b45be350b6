/** Puts the parts together when the editor starts, and takes them down when it ends. */

import { type ExtensionContext, window, workspace } from "vscode";
import { Vivace } from "./client";
import { registerCommands } from "./commands";
import { Edits } from "./edit";
import { StatusItem } from "./status";

let vivace: Vivace | undefined;

export async function activate({ secrets, subscriptions }: ExtensionContext): Promise<void> {
  const log = window.createOutputChannel("Vivace", { log: true });
  const status = new StatusItem();
  const edits = new Edits();
  const own = new Vivace(secrets, log, status, edits);
  vivace = own;
  subscriptions.push(
    log,
    status,
    edits,
    ...registerCommands({ vivace: own, edits, status, log, secrets }),
    window.onDidChangeTextEditorSelection(({ textEditor }) => own.moved(textEditor)),
    window.onDidChangeActiveTextEditor((editor) => editor && own.moved(editor)),
    secrets.onDidChange(() => void own.restart()),
    workspace.onDidGrantWorkspaceTrust(() => void own.restart()),
    workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("vivace")) void own.configure();
    }),
  );
  await own.restart();
}

export function deactivate(): Promise<void> | undefined {
  return vivace?.stop();
}
