// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-COzNgi-S.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "0a9b4b78b7dddfd2",
        plain: include_bytes!("assets/index-COzNgi-S.js"),
        gzip: include_bytes!("assets/index-COzNgi-S.js.gz"),
        brotli: include_bytes!("assets/index-COzNgi-S.js.br"),
    },
    Asset {
        name: "assets/style-C886TzdZ.css",
        content_type: "text/css; charset=utf-8",
        tag: "8aba0a098a458f99",
        plain: include_bytes!("assets/style-C886TzdZ.css"),
        gzip: include_bytes!("assets/style-C886TzdZ.css.gz"),
        brotli: include_bytes!("assets/style-C886TzdZ.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "d432494c5659fa17",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
