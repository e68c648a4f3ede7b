// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-DjlpyPij.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "1e18d8679e85dca2",
        plain: include_bytes!("assets/index-DjlpyPij.js"),
        gzip: include_bytes!("assets/index-DjlpyPij.js.gz"),
        brotli: include_bytes!("assets/index-DjlpyPij.js.br"),
    },
    Asset {
        name: "assets/style-C0c2iWMf.css",
        content_type: "text/css; charset=utf-8",
        tag: "0e1dd3ac2f88fbdd",
        plain: include_bytes!("assets/style-C0c2iWMf.css"),
        gzip: include_bytes!("assets/style-C0c2iWMf.css.gz"),
        brotli: include_bytes!("assets/style-C0c2iWMf.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "b5149e555fb513b6",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
