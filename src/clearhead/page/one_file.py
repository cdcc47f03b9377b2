"""The page as one file that opens without a server: answers of the service enter, an HTML document leaves.

Modules and answers are compressed inside it, and `open_saved.js` unpacks them. The bytes of the answers:

    4 bytes   length of the header
    header    {"start": the selection, "answers": [[request, bytes], …]}
    answers   one after the other
"""

import gzip
import json
import posixpath
import re
from base64 import b64encode
from collections.abc import Mapping

from clearhead.page import page_files

IMPORT = re.compile(r'(from\s+|import\s+)"(\.{1,2}/[^"]+\.js)"')
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:"
)
OPENER = "open_saved.js"


def one_file(answers: Mapping[str, bytes], start: str = "") -> str:
    """The document; `start` is the selection that it opens with, such as #view=heads."""
    files = {path: file.read_text(encoding="utf-8") for path, file in page_files().items()}
    shell = files["index.html"]
    icon, body = re.search(r'<link rel="icon"[^>]*>', shell), re.search(r"<body>.*</body>", shell, re.DOTALL)
    assert icon is not None
    assert body is not None
    modules = {f"page/{path}": resolved(path, text) for path, text in files.items() if path.endswith(".js")}
    del modules[f"page/{OPENER}"]
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>clearhead explorer, saved</title>\n{icon[0]}",
            f"<style>{files['style.css']}</style>",
            block("modules", json.dumps(modules, ensure_ascii=False).encode()),
            block("answers", packed(answers, start)),
            f"</head>\n{body[0].removesuffix('</body>')}<script>{files[OPENER]}</script>\n</body>\n</html>\n",
        ]
    )


def packed(answers: Mapping[str, bytes], start: str) -> bytes:
    """The bytes of the answers, with their header."""
    sizes = [[key, len(answer)] for key, answer in answers.items()]
    header = json.dumps({"start": start, "answers": sizes}).encode()
    return b"".join([len(header).to_bytes(4, "little"), header, *answers.values()])


def block(name: str, content: bytes) -> str:
    """A script element that contains bytes, compressed."""
    return f'<script type="text/plain" id="{name}">{b64encode(gzip.compress(content, 9, mtime=0)).decode()}</script>'


def resolved(path: str, text: str) -> str:
    """A module whose imports are names that do not depend on its place."""
    folder = posixpath.dirname(f"page/{path}")
    return IMPORT.sub(
        lambda found: f'{found[1]}"{posixpath.normpath(posixpath.join(folder, found[2]))}"', text
    )
