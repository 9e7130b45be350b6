// Says what TypeScript's parser has against a file: node typescript_parse.cjs COMPILER FILE
const fs = require("node:fs");
const ts = require(process.argv[2]);

const fileName = process.argv[3];
const { diagnostics } = ts.transpileModule(fs.readFileSync(fileName, "utf8"), {
  fileName,
  reportDiagnostics: true,
  compilerOptions: { target: ts.ScriptTarget.ES2022, jsx: ts.JsxEmit.React },
});
for (const { messageText, start, file } of diagnostics) {
  const line = file ? file.getLineAndCharacterOfPosition(start).line + 1 : 0;
  console.error(`line ${line}: ${ts.flattenDiagnosticMessageText(messageText, " ")}`);
}
process.exitCode = diagnostics.length ? 1 : 0;
