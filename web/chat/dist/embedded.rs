// Written by web/chat/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-aSBcjVbw.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "ae6c5d1c5e3a25f3",
        plain: include_bytes!("assets/index-aSBcjVbw.js"),
        gzip: include_bytes!("assets/index-aSBcjVbw.js.gz"),
        brotli: include_bytes!("assets/index-aSBcjVbw.js.br"),
    },
    Asset {
        name: "assets/style-BrlTqiUx.css",
        content_type: "text/css; charset=utf-8",
        tag: "a0232391d6f4f115",
        plain: include_bytes!("assets/style-BrlTqiUx.css"),
        gzip: include_bytes!("assets/style-BrlTqiUx.css.gz"),
        brotli: include_bytes!("assets/style-BrlTqiUx.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "eb1f40b73593efb7",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
