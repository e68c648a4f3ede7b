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
        name: "assets/index-B6cI9BeB.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "df7beaad2aed9084",
        plain: include_bytes!("assets/index-B6cI9BeB.js"),
        gzip: include_bytes!("assets/index-B6cI9BeB.js.gz"),
        brotli: include_bytes!("assets/index-B6cI9BeB.js.br"),
    },
    Asset {
        name: "assets/style-B6TbQ0qQ.css",
        content_type: "text/css; charset=utf-8",
        tag: "a822a35d7d99d79b",
        plain: include_bytes!("assets/style-B6TbQ0qQ.css"),
        gzip: include_bytes!("assets/style-B6TbQ0qQ.css.gz"),
        brotli: include_bytes!("assets/style-B6TbQ0qQ.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "43cd59d8a629bff2",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
