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
        name: "assets/index-YsVyeyuM.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "2d6870e2a270e286",
        plain: include_bytes!("assets/index-YsVyeyuM.js"),
        gzip: include_bytes!("assets/index-YsVyeyuM.js.gz"),
        brotli: include_bytes!("assets/index-YsVyeyuM.js.br"),
    },
    Asset {
        name: "assets/style-s9qQZ9Kf.css",
        content_type: "text/css; charset=utf-8",
        tag: "5acda9c4631f28f2",
        plain: include_bytes!("assets/style-s9qQZ9Kf.css"),
        gzip: include_bytes!("assets/style-s9qQZ9Kf.css.gz"),
        brotli: include_bytes!("assets/style-s9qQZ9Kf.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "ad9f32682b3612be",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
