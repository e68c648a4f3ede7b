// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-DeeIGtAN.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "e6720f734f2fbbbb",
        plain: include_bytes!("assets/index-DeeIGtAN.js"),
        gzip: include_bytes!("assets/index-DeeIGtAN.js.gz"),
        brotli: include_bytes!("assets/index-DeeIGtAN.js.br"),
    },
    Asset {
        name: "assets/style-DnuHq4Gy.css",
        content_type: "text/css; charset=utf-8",
        tag: "654a3d578eabe53b",
        plain: include_bytes!("assets/style-DnuHq4Gy.css"),
        gzip: include_bytes!("assets/style-DnuHq4Gy.css.gz"),
        brotli: include_bytes!("assets/style-DnuHq4Gy.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "a5973f6be38de171",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
