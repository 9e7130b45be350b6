/** The language client: one server process, started, restarted and stopped one after the other. */

import { isDeepStrictEqual } from "node:util";
import {
  commands,
  languages,
  type LogOutputChannel,
  type SecretStorage,
  type TextDocument,
  type TextEditor,
  workspace,
} from "vscode";
import {
  DidChangeConfigurationNotification,
  ExecuteCommandRequest,
  LanguageClient,
  RevealOutputChannelOn,
  State,
  type LanguageClientOptions,
  type Middleware,
  type ServerCapabilities,
  type StaticFeature,
} from "vscode-languageclient/node";
import type { Edits } from "./edit";
import {
  CURSOR,
  type CursorMoved,
  EDIT,
  EDIT_PROGRESS,
  type Known,
  PAUSE,
  REDIRECT,
  RENAME,
  REVIEW,
  STATUS,
  STOP,
} from "./protocol";
import { findProgram, NoProgram, type StartSettings, startSettings } from "./server";
import type { StatusItem } from "./status";

const DOCUMENTS = [{ scheme: "file" }, { scheme: "untitled" }, { scheme: "vscode-notebook-cell" }];
const RESTS_AFTER_MS = 250;
const KNOWN: Known = { edit: true, status: true, instruction: true, rename: true };
const OWN_COMMANDS: ReadonlySet<string> = new Set([EDIT, RENAME, REVIEW, REDIRECT, STOP, PAUSE, CURSOR]);

export class Vivace {
  private client: LanguageClient | undefined;
  private startedWith: StartSettings | undefined;
  private settled: Promise<void> = Promise.resolve();
  private resting: NodeJS.Timeout | undefined;

  constructor(
    private readonly secrets: SecretStorage,
    private readonly log: LogOutputChannel,
    private readonly status: StatusItem,
    private readonly edits: Edits,
  ) {}

  /** Starts the server anew. Calls queue: each begins when the one before it has settled. */
  restart(): Promise<void> {
    return this.next(async () => {
      await this.end();
      await this.begin();
    });
  }

  /** Tells the server of its settings, or starts it anew where it cannot change them as it runs. */
  async configure(): Promise<void> {
    if (this.startedWith && !isDeepStrictEqual(startSettings(), this.startedWith)) return this.restart();
    if (!this.client?.isRunning()) return;
    await this.client.sendNotification(DidChangeConfigurationNotification.type, { settings: settings() });
  }

  stop(): Promise<void> {
    return this.next(() => this.end());
  }

  /** Has the server carry out a command, with one object as its argument. */
  async ask(command: string, argument: object): Promise<void> {
    if (!this.client?.isRunning()) throw new Error(this.status.reason);
    await this.client.sendRequest(ExecuteCommandRequest.type, { command, arguments: [argument] });
  }

  /** Says where the cursor rests, so that what stands there can be read before anything is typed. */
  moved(editor: TextEditor): void {
    clearTimeout(this.resting);
    this.resting = setTimeout(() => void this.tellCursor(editor), RESTS_AFTER_MS);
  }

  private async tellCursor({ document, selection }: TextEditor): Promise<void> {
    const here = languages.match(DOCUMENTS, document) && completes(document);
    if (!here || !selection.isEmpty || !this.client?.isRunning()) return;
    const moved: CursorMoved = { uri: document.uri.toString(), position: selection.active };
    await this.ask(CURSOR, moved).catch((error: unknown) => this.log.debug(String(error)));
  }

  private next(step: () => Promise<void>): Promise<void> {
    this.settled = this.settled.then(step).catch((error: unknown) => {
      this.log.error(error instanceof Error ? error : String(error));
      this.status.show("failed", error instanceof Error ? error.message : String(error));
    });
    return this.settled;
  }

  private async begin(): Promise<void> {
    if (!workspace.isTrusted) {
      this.status.show("untrusted", "Vivace waits until you trust this workspace.");
      return;
    }
    this.status.show("starting", "The language server is starting.");
    this.startedWith = startSettings();
    try {
      const { path, environment } = await findProgram(this.secrets);
      this.log.info(`Starting ${path} lsp`);
      const run = { command: path, args: ["lsp"], options: { env: environment } };
      this.client = new LanguageClient("vivace", "Vivace", run, this.options());
    } catch (error) {
      if (!(error instanceof NoProgram)) throw error;
      this.status.show("missing", error.message);
      return;
    }
    this.client.registerFeature(introduction);
    this.client.onDidChangeState(({ newState }) => this.entered(newState));
    this.client.onNotification(STATUS, (status) => this.status.tell(status));
    this.client.onNotification(EDIT_PROGRESS, (edit) => this.edits.show(edit));
    await this.client.start();
  }

  private async end(): Promise<void> {
    const { client } = this;
    this.client = undefined;
    this.edits.clear();
    await client?.dispose();
  }

  private entered(state: State): void {
    void commands.executeCommand("setContext", "vivace.running", state === State.Running);
    if (state === State.Running) this.status.show("ready", "The language server runs.");
    if (state === State.Stopped && this.client) {
      this.edits.clear();
      this.status.show("failed", "The language server ended; the log says why.");
    }
  }

  private options(): LanguageClientOptions {
    return {
      documentSelector: DOCUMENTS,
      outputChannel: this.log,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      initializationOptions: settings(),
      middleware,
    };
  }
}

/** The settings that are the server's; the others are the extension's own. */
function settings(): object {
  const { model, deepModel, completion, findings } = workspace.getConfiguration("vivace");
  const { timing, characters } = completion;
  const { enabled, bugs } = findings;
  return { model, deepModel, completion: { timing, characters }, findings: { enabled, bugs } };
}

/** Asked here, since a setting can differ by language and the server cannot see that. */
function completes(document: TextDocument): boolean {
  return workspace.getConfiguration("vivace", document).get("completion.enabled", true);
}

const middleware: Middleware = {
  provideInlineCompletionItems(document, position, context, token, next) {
    return completes(document) ? next(document, position, context, token) : null;
  },
};

/** What is said at the first handshake beyond the protocol, and what is taken from the answer. */
const introduction: StaticFeature = {
  fillClientCapabilities(capabilities) {
    capabilities.experimental = { ...capabilities.experimental, vivace: KNOWN };
  },
  preInitialize({ executeCommandProvider }: ServerCapabilities) {
    if (!executeCommandProvider) return;
    // The client would register these too; but they are the extension's, which asks the person first.
    executeCommandProvider.commands = executeCommandProvider.commands.filter((name) => !OWN_COMMANDS.has(name));
  },
  initialize() {},
  getState: () => ({ kind: "static" }),
  clear() {},
};
