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
        name: "assets/index-DeYqjiS0.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "fb210baf493f4b80",
        plain: include_bytes!("assets/index-DeYqjiS0.js"),
        gzip: include_bytes!("assets/index-DeYqjiS0.js.gz"),
        brotli: include_bytes!("assets/index-DeYqjiS0.js.br"),
    },
    Asset {
        name: "assets/style-x26SxfVj.css",
        content_type: "text/css; charset=utf-8",
        tag: "86e838fbcfa92eb0",
        plain: include_bytes!("assets/style-x26SxfVj.css"),
        gzip: include_bytes!("assets/style-x26SxfVj.css.gz"),
        brotli: include_bytes!("assets/style-x26SxfVj.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "95d7fcb748729355",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
