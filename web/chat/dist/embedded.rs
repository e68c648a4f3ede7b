// Written by web/chat/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/compressors-ys7O5fTV.wasm",
        content_type: "application/wasm",
        tag: "d915a3a3398ee07c",
        plain: include_bytes!("assets/compressors-ys7O5fTV.wasm"),
        gzip: include_bytes!("assets/compressors-ys7O5fTV.wasm.gz"),
        brotli: include_bytes!("assets/compressors-ys7O5fTV.wasm.br"),
    },
    Asset {
        name: "assets/index-kNpkn6Wg.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "3b8b4ccac53a4194",
        plain: include_bytes!("assets/index-kNpkn6Wg.js"),
        gzip: include_bytes!("assets/index-kNpkn6Wg.js.gz"),
        brotli: include_bytes!("assets/index-kNpkn6Wg.js.br"),
    },
    Asset {
        name: "assets/style-BnuvaWX9.css",
        content_type: "text/css; charset=utf-8",
        tag: "0f81f0f1c6ab7c77",
        plain: include_bytes!("assets/style-BnuvaWX9.css"),
        gzip: include_bytes!("assets/style-BnuvaWX9.css.gz"),
        brotli: include_bytes!("assets/style-BnuvaWX9.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "8867dee72d68df4d",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
