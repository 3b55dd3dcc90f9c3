// Counts the tokens of texts: node count_tokens.cjs MODULES < {"name": "text"} > {"name": tokens}
const { readFileSync } = require("node:fs");
const { join, resolve } = require("node:path");

const modules = resolve(process.argv[2]);
const { countTokens } = require(join(modules, "gpt-tokenizer/cjs/encoding/o200k_base"));
const texts = Object.entries(JSON.parse(readFileSync(0, "utf8")));
console.log(JSON.stringify(Object.fromEntries(texts.map(([name, text]) => [name, countTokens(text)]))));
