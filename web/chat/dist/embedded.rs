// Written by web/chat/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/compressors-DEOsVCDa.wasm",
        content_type: "application/wasm",
        tag: "f3e359fb4979c5cf",
        plain: include_bytes!("assets/compressors-DEOsVCDa.wasm"),
        gzip: include_bytes!("assets/compressors-DEOsVCDa.wasm.gz"),
        brotli: include_bytes!("assets/compressors-DEOsVCDa.wasm.br"),
    },
    Asset {
        name: "assets/index-Dq7BtEWG.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "2c9843fc2242c36c",
        plain: include_bytes!("assets/index-Dq7BtEWG.js"),
        gzip: include_bytes!("assets/index-Dq7BtEWG.js.gz"),
        brotli: include_bytes!("assets/index-Dq7BtEWG.js.br"),
    },
    Asset {
        name: "assets/style-3-PtLZ-7.css",
        content_type: "text/css; charset=utf-8",
        tag: "0e5971172b5741aa",
        plain: include_bytes!("assets/style-3-PtLZ-7.css"),
        gzip: include_bytes!("assets/style-3-PtLZ-7.css.gz"),
        brotli: include_bytes!("assets/style-3-PtLZ-7.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "73b48b3e1f35d2e2",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
