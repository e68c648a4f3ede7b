// Written by web/chat/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-CvXOm_s_.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "459b9bffe34439f7",
        plain: include_bytes!("assets/index-CvXOm_s_.js"),
        gzip: include_bytes!("assets/index-CvXOm_s_.js.gz"),
        brotli: include_bytes!("assets/index-CvXOm_s_.js.br"),
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
        tag: "b2d8b6ed9ade700e",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
