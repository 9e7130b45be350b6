// node bundle.mjs FOLDER: the extension as it is packaged, with all that it needs, in this folder.

import { copyFile, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";

const here = import.meta.dirname;
const [folder] = process.argv.slice(2);

/** What the licences of the packages in the bundle want told. */
async function notices(inputs) {
  const names = new Set();
  for (const input of inputs) {
    const name = /.*node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1];
    if (name) names.add(name);
  }
  const texts = [...names].sort().map(async (name) => {
    const source = join(here, "node_modules", name);
    const licence = (await readdir(source)).find((file) => /^licen[cs]e(\.(txt|md))?$/i.test(file));
    if (!licence) throw new Error(`${name} is in the bundle and has no licence`);
    return `# ${name}\n\n${await readFile(join(source, licence), "utf8")}`;
  });
  return (await Promise.all(texts)).join("\n\n");
}

const { metafile } = await build({
  absWorkingDir: here,
  entryPoints: ["src/main.ts"],
  outfile: join(folder, "dist", "main.js"),
  bundle: true,
  external: ["vscode"],
  format: "cjs",
  metafile: true,
  minify: true,
  platform: "node",
  target: "node20",
});
await mkdir(folder, { recursive: true });
await writeFile(join(folder, "ThirdPartyNotices.txt"), await notices(Object.keys(metafile.inputs)));
await copyFile(join(here, "package.json"), join(folder, "package.json"));
await copyFile(join(here, "README.md"), join(folder, "README.md"));
await copyFile(join(here, "..", "..", "LICENSE"), join(folder, "LICENSE"));
