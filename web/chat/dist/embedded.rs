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
        name: "assets/index-PG_KS02l.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "d1451cf0be1907cb",
        plain: include_bytes!("assets/index-PG_KS02l.js"),
        gzip: include_bytes!("assets/index-PG_KS02l.js.gz"),
        brotli: include_bytes!("assets/index-PG_KS02l.js.br"),
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
        tag: "4e633f53134186b6",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
