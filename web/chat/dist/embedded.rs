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
        name: "assets/index-Bhvzf1pJ.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "0112344aa412af6c",
        plain: include_bytes!("assets/index-Bhvzf1pJ.js"),
        gzip: include_bytes!("assets/index-Bhvzf1pJ.js.gz"),
        brotli: include_bytes!("assets/index-Bhvzf1pJ.js.br"),
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
        tag: "fde4d54d5ed0be9c",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
