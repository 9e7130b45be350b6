// Runs a TypeScript file and what it requires: node typescript_run.cjs COMPILER FILE
const fs = require("node:fs");
const Module = require("node:module");
const ts = require(process.argv[2]);

const compilerOptions = {
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.CommonJS,
  jsx: ts.JsxEmit.React,
  esModuleInterop: true,
};

for (const extension of [".ts", ".tsx", ".mts", ".cts"]) {
  Module._extensions[extension] = (module, fileName) => {
    const text = fs.readFileSync(fileName, "utf8");
    module._compile(ts.transpileModule(text, { fileName, compilerOptions }).outputText, fileName);
  };
}

// Sources say "./name.js" where the file is ./name.ts.
const resolve = Module._resolveFilename;
Module._resolveFilename = function (request, ...rest) {
  const source = request.replace(/\.([mc]?)js(x?)$/, ".$1ts$2");
  if (request.startsWith(".") && source !== request) {
    try {
      return resolve.call(this, source, ...rest);
    } catch {
      // It is JavaScript after all.
    }
  }
  return resolve.call(this, request, ...rest);
};

require(process.argv[3]);
