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
        name: "assets/index-DE6tkZtk.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "9403c233b37776a9",
        plain: include_bytes!("assets/index-DE6tkZtk.js"),
        gzip: include_bytes!("assets/index-DE6tkZtk.js.gz"),
        brotli: include_bytes!("assets/index-DE6tkZtk.js.br"),
    },
    Asset {
        name: "assets/style-DCGR8Qa4.css",
        content_type: "text/css; charset=utf-8",
        tag: "65d8b4416176ceb6",
        plain: include_bytes!("assets/style-DCGR8Qa4.css"),
        gzip: include_bytes!("assets/style-DCGR8Qa4.css.gz"),
        brotli: include_bytes!("assets/style-DCGR8Qa4.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "87cc1efa0d9c1d84",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
