"""A story of many features, as LibreOffice, pandoc and Calibre write it: words, emphasis, breaks and headings come in.

The programs are none of the project's: a gigabyte. Where they are not installed the tests are skipped, on every machine.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.processes import DEADLINE, ROOT

pytestmark = pytest.mark.long

PAGE = """<!DOCTYPE html><html><head><meta charset="utf-8"><title>The Lamp</title></head><body>
<h1>Chapter <i>One</i></h1>
<p>It was <i>dark</i> and <b>cold</b>, <b><i>very</i></b> so. “Where?” — she said…</p>
<p>The note said *do not run* in chalk, and _old_ max_old_count.</p>
<p># 5 Mill Lane</p>
<p>Line one,<br>line two.</p>
<p>Fourth &amp; &lt;b&gt;.</p>
<p>Fifth paragraph.</p>
<p><br></p>
<p>Later, levi<i>o</i>sa.</p>
<p>* * *</p>
<p>After the break.</p>
<h2>Chapter Two</h2>
<p>Tom’s 海の灯台 🌕 café. שלום</p>
<p><i>All of it</i>.</p>
<p>The end.</p>
</body></html>
"""
TEXT = """# Chapter *One*

It was *dark* and **cold**, ***very*** so. “Where?” — she said…

The note said \\*do not run\\* in chalk, and \\_old\\_ max_old_count.

\\# 5 Mill Lane

Line one,
line two.

Fourth & <b>.

Fifth paragraph.


Later, levi*o*sa.

***

After the break.

## Chapter Two

Tom’s 海の灯台 🌕 café. שלום

*All of it*.

The end."""
READ = """
import { readFileSync } from "node:fs";
import { read } from "./srb/page/formats/detect.js";
const [path] = process.argv.slice(-1);
const found = await read(path, new Uint8Array(readFileSync(path)));
if ("error" in found) throw new Error(found.error);
const [story] = found.stories;
console.log(JSON.stringify([story.meta("title"), story.text(story.head.node, story.head.at)]));
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("pandoc"):
        pytest.skip("needs pandoc")
    folder = tmp_path_factory.mktemp("programs")
    (folder / "story.html").write_text(PAGE, encoding="utf-8")
    return folder


def run(*command: str | Path) -> str:
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=DEADLINE, encoding="utf-8")
    return done.stdout


def read(path: Path) -> tuple[str, str]:
    title, text = json.loads(run("node", "--input-type=module", "-e", READ, "--", path))
    return title, text


def pandoc(folder: Path, ending: str) -> Path:
    target = folder / f"pandoc.{ending}"
    if not target.exists():
        run("pandoc", folder / "story.html", "-s", "-o", target)
    return target


@pytest.mark.parametrize("ending", ["odt", "docx", "epub", "html"])
def test_files_of_pandoc_come_in_whole(folder: Path, ending: str) -> None:
    assert read(pandoc(folder, ending)) == ("The Lamp", TEXT)


@pytest.mark.parametrize("ending", ["odt", "docx", "rtf", "html", "epub"])
def test_files_of_libreoffice_come_in_whole(folder: Path, ending: str) -> None:
    """Its EPUBs have no headings: these come as bold words."""
    if not shutil.which("soffice"):
        pytest.skip("needs LibreOffice")
    source = pandoc(folder, "odt")
    if ending == "odt":
        written = folder / "again" / "pandoc.odt"
    else:
        written = folder / "office" / f"pandoc.{ending}"
    profile = f"-env:UserInstallation={(folder / 'profile').as_uri()}"
    run("soffice", profile, "--headless", "--convert-to", ending, "--outdir", written.parent, source)
    title, text = read(written)
    assert title == "The Lamp"
    if ending == "epub":
        text = text.replace("**Chapter *One***", "# Chapter *One*").replace("***Chapter Two***", "## Chapter Two")
    assert text == TEXT


@pytest.mark.parametrize("ending", ["epub", "docx", "rtf"])
def test_files_of_calibre_come_in_whole(folder: Path, ending: str) -> None:
    """Its Word files begin with a table of contents, and their headings are a level deeper."""
    if not shutil.which("ebook-convert"):
        pytest.skip("needs Calibre")
    written = folder / f"calibre.{ending}"
    run("ebook-convert", folder / "story.html", written)
    title, text = read(written)
    assert title == "The Lamp"
    if ending == "docx":
        contents, _, text = text.partition("## Chapter *One*")
        assert " ".join(contents.split()) == "## Table of Contents Chapter One Chapter Two"
        text = "# Chapter *One*" + text.replace("### Chapter Two", "## Chapter Two")
    assert text == TEXT


COMPARE = """
import { createRequire } from "node:module";
import { readdirSync, readFileSync } from "node:fs";
import { read } from "./srb/page/formats/detect.js";
const [folder] = process.argv.slice(-1);
const mammoth = createRequire(`${folder}/`)("mammoth");
const files = `${folder}/node_modules/mammoth/test/test-data`;
const wordsOf = (text) => text.normalize("NFC").match(/[\\p{L}\\p{N}]+/gu) ?? [];
const lost = {};
let compared = 0;
for (const name of readdirSync(files).filter((each) => each.endsWith(".docx"))) {
  const wanted = wordsOf((await mammoth.extractRawText({ path: `${files}/${name}` })).value);
  if (wanted.length === 0) continue;
  const found = await read(name, new Uint8Array(readFileSync(`${files}/${name}`)));
  if ("error" in found) throw new Error(`${name}: ${found.error}`);
  const json = found.stories[0].toJSON();
  const notes = Object.entries(json).filter(([key]) => key.startsWith("comment")).map(([, { text }]) => text);
  const texts = Object.values(json.nodes).map(({ text }) => text);
  const left = wordsOf([json.title, json.author ?? "", ...texts, ...notes].join(" "));
  compared += 1;
  const missing = wanted.filter((word) => {
    const at = left.indexOf(word);
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
  if (missing.length > 0) lost[name] = missing;
}
console.log(JSON.stringify([compared, lost]));
"""


def test_no_word_is_lost_that_mammoth_reads_in_its_own_files(tmp_path: Path) -> None:
    """The files with which the other reader of Word files is tested; neither is kept here."""
    if not shutil.which("npm"):
        pytest.skip("needs npm")
    (tmp_path / "package.json").write_text("{}")
    fetch = ["npm", "install", "--prefix", tmp_path, "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
    subprocess.run([*fetch, "mammoth@1.13.0"], check=True, timeout=DEADLINE)
    compared, lost = json.loads(run("node", "--input-type=module", "-e", COMPARE, "--", tmp_path))
    assert compared >= 10
    assert lost == {}
