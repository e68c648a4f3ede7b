// Written by web/chat/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-Bz_CpMAA.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "6cf8ea7a09ddbfc9",
        plain: include_bytes!("assets/index-Bz_CpMAA.js"),
        gzip: include_bytes!("assets/index-Bz_CpMAA.js.gz"),
        brotli: include_bytes!("assets/index-Bz_CpMAA.js.br"),
    },
    Asset {
        name: "assets/style-x26SxfVj.css",
        content_type: "text/css; charset=utf-8",
        tag: "86e838fbcfa92eb0",
        plain: include_bytes!("assets/style-x26SxfVj.css"),
        gzip: include_bytes!("assets/style-x26SxfVj.css.gz"),
        brotli: include_bytes!("assets/style-x26SxfVj.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "6c3c4ab291eafeca",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
