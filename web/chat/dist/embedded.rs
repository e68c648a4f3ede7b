// Written by web/chat/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-CorP-Huu.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "d4fd0f4a391560d6",
        plain: include_bytes!("assets/index-CorP-Huu.js"),
        gzip: include_bytes!("assets/index-CorP-Huu.js.gz"),
        brotli: include_bytes!("assets/index-CorP-Huu.js.br"),
    },
    Asset {
        name: "assets/style-B9ma-4pr.css",
        content_type: "text/css; charset=utf-8",
        tag: "34a1c28ed6677a62",
        plain: include_bytes!("assets/style-B9ma-4pr.css"),
        gzip: include_bytes!("assets/style-B9ma-4pr.css.gz"),
        brotli: include_bytes!("assets/style-B9ma-4pr.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "0d2d588a03ffe183",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
