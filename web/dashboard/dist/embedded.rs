// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-DwfTRh1n.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "5d859a783e16cb2f",
        plain: include_bytes!("assets/index-DwfTRh1n.js"),
        gzip: include_bytes!("assets/index-DwfTRh1n.js.gz"),
        brotli: include_bytes!("assets/index-DwfTRh1n.js.br"),
    },
    Asset {
        name: "assets/style-C8Gwirxw.css",
        content_type: "text/css; charset=utf-8",
        tag: "c66ee91c991e71a2",
        plain: include_bytes!("assets/style-C8Gwirxw.css"),
        gzip: include_bytes!("assets/style-C8Gwirxw.css.gz"),
        brotli: include_bytes!("assets/style-C8Gwirxw.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "71467855e2b7a1dc",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
