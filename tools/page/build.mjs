// Make the page's vendored libraries: node tools/page/build.mjs PACKAGES VENDOR
//
// PACKAGES is the folder in which npm installed package.json; VENDOR gets a file for each of tools/page/vendor/*.ts, its types,
// the fonts, LICENSES and versions.json. The same packages give the same bytes.

import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const [packages, vendor] = process.argv.slice(2).map((folder) => resolve(folder));
const modules = join(packages, "node_modules");
const here = dirname(fileURLToPath(import.meta.url));
const sources = join(here, "vendor");
const { build } = createRequire(join(packages, "package.json"))("esbuild");

/** Files of fonts, and the package that each is of. Their ranges of characters are in srb/page/page.css and parts/faces.css. */
const FONTS = Object.fromEntries(
  ["latin", "latin-ext"].flatMap((range) =>
    [
      ["", "400-normal"],
      ["-italic", "400-italic"],
      ["-bold", "700-normal"],
    ].map(([face, style]) => [
      `literata-${range}${face}.woff2`,
      ["@fontsource/literata", `files/literata-${range}-${style}.woff2`],
    ]),
  ),
);

/** Return the names of the packages that a bundle has code of. */
function packagesOf(metafile) {
  const [output] = Object.values(metafile.outputs);
  const files = Object.entries(output.inputs).filter(([, part]) => part.bytesInOutput > 0);
  const names = files.map(([file]) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1]);
  return [...new Set(names.filter((name) => name !== undefined))].sort();
}

/** Return name, version and licence of a package. */
function describe(name) {
  const { version, license } = JSON.parse(readFileSync(join(modules, name, "package.json"), "utf8"));
  return { name, version, licence: license };
}

/** Return the text of a package's licence. */
function licenceText(name) {
  const file = readdirSync(join(modules, name)).find((each) => /^licen[cs]e/i.test(each));
  if (file === undefined) {
    throw new Error(`${name} has no licence file`);
  }
  return readFileSync(join(modules, name, file), "utf8").trim();
}

/** Bundle one source, write it, and return its entry of versions.json. */
async function bundle(source) {
  const name = basename(source, ".ts");
  const { outputFiles, metafile } = await build({
    entryPoints: [join(sources, source)],
    alias: {
      "@codemirror/language": join(here, "stand_ins", "codemirror_language.ts"),
      "@lezer/common": join(here, "stand_ins", "lezer_common.ts"),
    },
    nodePaths: [modules],
    absWorkingDir: packages,
    bundle: true,
    charset: "utf8",
    format: "esm",
    legalComments: "none",
    metafile: true,
    minify: true,
    outfile: join(vendor, `${name}.js`),
    platform: "browser",
    target: "es2022",
    tsconfigRaw: {},
    write: false,
  });
  const used = packagesOf(metafile).map(describe);
  const banner = `/* ${used.map((each) => `${each.name} ${each.version}`).join(", ")}; see LICENSES */\n`;
  const text = banner + outputFiles[0].text;
  writeFileSync(join(vendor, `${name}.js`), text);
  const types = `../../../tools/page/vendor/${name}.js`; // as seen from srb/page/vendor
  writeFileSync(join(vendor, `${name}.d.ts`), `export * from "${types}"; // for the checker only; not in the wheel\n`);
  return { sha256: checksum(text), packages: used };
}

/** Copy a font, and return its entry of versions.json. */
function font(name) {
  const [from, file] = FONTS[name];
  copyFileSync(join(modules, from, file), join(vendor, name));
  return { sha256: checksum(readFileSync(join(vendor, name))), packages: [describe(from)] };
}

/** Return the checksum of a file's content. */
function checksum(content) {
  return createHash("sha256").update(content).digest("hex");
}

mkdirSync(vendor, { recursive: true });
const versions = {};
for (const source of readdirSync(sources).sort()) {
  versions[`${basename(source, ".ts")}.js`] = await bundle(source);
}
for (const name of Object.keys(FONTS)) {
  versions[name] = font(name);
}
writeFileSync(join(vendor, "versions.json"), `${JSON.stringify(versions, null, 2)}\n`);

const used = new Set(Object.values(versions).flatMap((file) => file.packages.map((each) => each.name)));
const texts = [...used].sort().map((name) => `${name}\n${"=".repeat(name.length)}\n\n${licenceText(name)}\n`);
writeFileSync(join(vendor, "LICENSES"), texts.join("\n\n"));
