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
        name: "assets/index-DzJD5KdO.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "f3c6964e6e7505cd",
        plain: include_bytes!("assets/index-DzJD5KdO.js"),
        gzip: include_bytes!("assets/index-DzJD5KdO.js.gz"),
        brotli: include_bytes!("assets/index-DzJD5KdO.js.br"),
    },
    Asset {
        name: "assets/style-CQ2A3e2j.css",
        content_type: "text/css; charset=utf-8",
        tag: "bf17f3ce1308019a",
        plain: include_bytes!("assets/style-CQ2A3e2j.css"),
        gzip: include_bytes!("assets/style-CQ2A3e2j.css.gz"),
        brotli: include_bytes!("assets/style-CQ2A3e2j.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "da5cf4c33c7c3471",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
