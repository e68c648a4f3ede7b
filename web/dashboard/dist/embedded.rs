// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-Bk0bYckq.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "3cda9c1426722b53",
        plain: include_bytes!("assets/index-Bk0bYckq.js"),
        gzip: include_bytes!("assets/index-Bk0bYckq.js.gz"),
        brotli: include_bytes!("assets/index-Bk0bYckq.js.br"),
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
        tag: "700c7e18886efbde",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
