"""The explorer's page: HTML, CSS and JavaScript modules without a build step, and no sockets.

What enters is JSON and packets of float32 numbers from `service/`; what leaves are the files below.

    index.html, style.css   the frame
    main.js                 draws the chosen view, and the derivation beside it, whenever the selection changes
    frame.js                what is always in sight: texts, output, the list of views, what has been changed
    keys.js                 the keys of the page
    views.js                the views in their order
    state.js                the selection, which is the address of the page
    api.js                  requests to the service
    app.js                  the model, the pass on screen, and what the selection means for them
    views/                  one module per view
    derivation.js           where the selected number comes from, one function per kind in derivations/
    parts/                  what views share: elements, panels, matrices, controls, colours, Python to copy
    lessons.js              the panel of lessons; lessons/ has their files
    scrubber.js             the slider over the steps of a run
    save_page.js            the page as one file that opens without a server
    open_saved.js           starts such a file, which one_file.py makes
"""

from pathlib import Path

FOLDER = Path(__file__).parent
KINDS = (".html", ".css", ".js")


def page_files() -> dict[str, Path]:
    """The files of the page, by their path inside it, such as views/heads.js."""
    files = (path for path in sorted(FOLDER.rglob("*")) if path.suffix in KINDS)
    return {path.relative_to(FOLDER).as_posix(): path for path in files}
