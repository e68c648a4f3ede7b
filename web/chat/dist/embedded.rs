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
        name: "assets/index-D6G8Phk9.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "24abf8ec03a71aab",
        plain: include_bytes!("assets/index-D6G8Phk9.js"),
        gzip: include_bytes!("assets/index-D6G8Phk9.js.gz"),
        brotli: include_bytes!("assets/index-D6G8Phk9.js.br"),
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
        tag: "4e86ed0b43d0214d",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
