/** The `vivace` program: where it is, what it is told by its environment, and how a person sees it run. */

import { access, constants, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { delimiter, isAbsolute, join } from "node:path";
import { type SecretStorage, window, workspace } from "vscode";

const KEY = "vivace.key";

export interface Program {
  path: string;
  environment: Record<string, string>;
}

/** What a server is started with and keeps until it ends; a workspace has no say in it. */
export interface StartSettings {
  command: string;
  address: string;
}

export function startSettings(): StartSettings {
  const settings = workspace.getConfiguration("vivace");
  return { command: settings.get("command", "").trim(), address: settings.get("address", "").trim() };
}

/** The message says what a person can do. */
export class NoProgram extends Error {}

/** Looks where the setting says, else along PATH. Nothing is ever installed from here. */
export async function findProgram(secrets: SecretStorage): Promise<Program> {
  if (process.platform === "win32") {
    throw new NoProgram("Vivace needs Linux or macOS: on Windows, open this folder in WSL.");
  }
  const { command, address } = startSettings();
  const path = await locate(command);
  const environment: Record<string, string> = { VIVACE_URL: address };
  const key = await secrets.get(KEY);
  if (key) environment["VIVACE_KEY"] = key;
  return { path, environment };
}

async function locate(setting: string): Promise<string> {
  if (setting) {
    const path = setting.startsWith("~/") ? join(homedir(), setting.slice(2)) : setting;
    if (isAbsolute(path) && (await isExecutable(path))) return path;
    throw new NoProgram(`The setting vivace.command names no program: ${setting}`);
  }
  for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
    // A relative folder would be one of the workspace, and its program a stranger's.
    const path = join(folder, "vivace");
    if (isAbsolute(folder) && (await isExecutable(path))) return path;
  }
  throw new NoProgram(
    "There is no vivace on PATH: install it with its part for editors (lsp), or name it in the setting vivace.command.",
  );
}

async function isExecutable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}

export async function askForKey(secrets: SecretStorage): Promise<void> {
  const key = await window.showInputBox({
    title: "The server's key",
    prompt: "Kept by the editor in your system's store of secrets. Empty: no key.",
    password: true,
    ignoreFocusOut: true,
  });
  if (key === undefined) return;
  await (key.trim() ? secrets.store(KEY, key.trim()) : secrets.delete(KEY));
}

/** Runs a command of vivace's in a terminal, where a person sees it and can end it. */
export function runInTerminal(program: Program, command: "up" | "doctor"): void {
  const terminal = window.createTerminal({
    name: `vivace ${command}`,
    env: program.environment,
    isTransient: true, // the editor would write the environment, which has the key, to disk
  });
  terminal.show();
  terminal.sendText(`'${program.path.replaceAll("'", `'\\''`)}' ${command}`);
}
