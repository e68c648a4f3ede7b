// Written by web/chat/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/compressors-MykgCuqE.wasm",
        content_type: "application/wasm",
        tag: "64ba1f9c58d452aa",
        plain: include_bytes!("assets/compressors-MykgCuqE.wasm"),
        gzip: include_bytes!("assets/compressors-MykgCuqE.wasm.gz"),
        brotli: include_bytes!("assets/compressors-MykgCuqE.wasm.br"),
    },
    Asset {
        name: "assets/index-BRRklBxk.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "cc0522b1857d648a",
        plain: include_bytes!("assets/index-BRRklBxk.js"),
        gzip: include_bytes!("assets/index-BRRklBxk.js.gz"),
        brotli: include_bytes!("assets/index-BRRklBxk.js.br"),
    },
    Asset {
        name: "assets/style-BvgfObyw.css",
        content_type: "text/css; charset=utf-8",
        tag: "43e3675898989806",
        plain: include_bytes!("assets/style-BvgfObyw.css"),
        gzip: include_bytes!("assets/style-BvgfObyw.css.gz"),
        brotli: include_bytes!("assets/style-BvgfObyw.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "cc884807ecb8d5b3",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
